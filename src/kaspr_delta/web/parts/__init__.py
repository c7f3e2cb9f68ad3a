"""Parts of pages: each makes the values of one template, or of one kind of its rows."""
