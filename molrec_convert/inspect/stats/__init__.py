"""What a collection's numbers are like: collected in one pass, shown as text, as a page, as a picture."""

from molrec_convert.inspect.stats.collecting import collect_statistics
from molrec_convert.inspect.stats.page import statistics_page
from molrec_convert.inspect.stats.picture import save_picture
from molrec_convert.inspect.stats.text import statistics_lines

__all__ = ["collect_statistics", "save_picture", "statistics_lines", "statistics_page"]
