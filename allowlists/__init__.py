"""The shipped lists as package data: baseline.txt, github.txt, deny.txt. gateway.allowlists reads them."""
