"""The records of the page "Layout by example", and what the page prints of their stores."""
