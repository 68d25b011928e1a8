"""Policy: what is allowed. Pure: no IO, no clock, no randomness, no logging; imports nothing but itself."""
