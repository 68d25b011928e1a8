# Everything lands in .venv/. `make` alone lists the targets.
# PYTHON=/path/to/python picks the interpreter of a new .venv; ARGS=... goes to the program a target runs.

BIN := .venv/bin
PYTHON ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench lock clean

help:
	@echo "make demo    set up, then run the main job against targets of its own on loopback"
	@echo "make test    set up, then run the tests       (ARGS='tests/policy -x')"
	@echo "make lint    set up, then ruff and mypy"
	@echo "make format  set up, then let ruff rewrite what it can"
	@echo "make bench   set up, then measure against other proxies"
	@echo "make setup   everything into .venv/"
	@echo "make lock    renew requirements.lock          (ARGS=--upgrade for the newest versions)"
	@echo "make clean   remove .venv/ and the caches"

setup:
	@PYTHON='$(PYTHON)' sh setup/setup.sh

demo: setup
	$(BIN)/agent-gateway demo $(ARGS)

test: setup
	@sh setup/system-packages.sh curl:curl git:git ssh:openssh-client /usr/sbin/sshd:openssh-server chromium:chromium
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m tests.bench $(ARGS)

lock:
	sh setup/lock.sh $(ARGS)

clean:
	rm -rf .venv .cache build dist *.egg-info
