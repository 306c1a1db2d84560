"""The HTML report of a comparison: one page that needs no network, with interactive charts (`static/chart.js`)."""

from murmuration.reports.webpage.document import PageExtras, html_page

__all__ = ["PageExtras", "html_page"]
