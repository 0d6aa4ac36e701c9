"""What each wire looks like, apart from how bytes get there: methods, JSON forms, errors."""
