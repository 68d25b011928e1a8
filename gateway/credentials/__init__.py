"""GitHub credentials: the App's key, its short-lived tokens, and who in a session may hold which. Home of PyJWT."""
