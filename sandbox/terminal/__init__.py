"""A person's own shell (`--profile terminal`) in bubblewrap.

wrap.py         the host's file system read-only, home and working directory writable
masks.py        what is covered in it
environment.py  what is left out of the person's environment
"""
