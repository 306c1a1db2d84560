"""Reports of comparisons: result files, printed tables, plots and the web page."""

from murmuration.home import open_home

open_home()
