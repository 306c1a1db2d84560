"""The documentation site: pages that are not in `docs/`, the reference, and links for the site and the repository."""
