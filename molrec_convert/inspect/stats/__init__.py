"""What a collection's numbers are like: collected in one pass, shown as text, as a page, as a picture."""

from molrec_convert.inspect.stats.collecting import collect_statistics
from molrec_convert.inspect.stats.output import save_picture, statistics_lines, statistics_page

__all__ = ["collect_statistics", "save_picture", "statistics_lines", "statistics_page"]
