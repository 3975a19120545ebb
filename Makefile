# The two commands of the README. Both can be repeated: what is done is not done again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: audit test lint images faults soak fuzz vulnerabilities

audit: $(VENV)/installed
	$(BIN)/scotoma audit $(AUDIT_ARGUMENTS)

# Workers of one thread: a second OpenMP thread stalls the first when its core is busy.
test: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 \
	  --dist loadfile --no-loadscope-reorder $(PYTEST_ARGUMENTS)

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# All images, and an audit whose every step runs in them: gigabytes, so no part of the tests.
images: $(VENV)/installed-test
	docker/build
	docker/try $(BIN)/python

# Fifty kills at random moments, each taken up again and compared: six minutes.
faults: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults 50

# Readers of what comes from outside, ten seconds each: six minutes.
fuzz: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds 10

# Twelve audits in one process: does anything grow?
soak: $(VENV)/installed-test
	$(BIN)/python benchmarks/soak.py 12 --svg docs/soak.svg

# What is known against the packages that are installed: needs a network, so no part of the tests.
vulnerabilities: $(VENV)/installed
	$(PYTHON) -m venv $(VENV)/pip-audit
	$(VENV)/pip-audit/bin/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip freeze --exclude-editable >$(VENV)/packages.txt
	$(VENV)/pip-audit/bin/pip-audit --strict --disable-pip --no-deps -r $(VENV)/packages.txt

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 -m venv failed; on Debian: apt install python3-venv" >&2; exit 1; }

$(VENV)/installed: pyproject.toml setup.py $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test
	touch $@
