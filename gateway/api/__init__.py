"""What can be asked of the gateway over HTTP. Nothing here decides: handlers ask the door."""
