"""Whether bubblewrap can work on this host, and what to do when it cannot. Found by running, never by matching text.

trial.py         one full run decides; when it fails, smaller ones find the step
obstacles.py     what stands in the way of a step, and its cure
apparmor.py      containers.py   two obstacles with much to say
distribution.py  packages and commands of this distribution
host_files.py    what is read of the host for all that
probe.py         the answer, as a value
"""
