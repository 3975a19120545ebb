# The two commands of the README are audit and test. All can be repeated: what is done is not done
# again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The versions that the tests are known to pass with; LOCK= takes the newest.
LOCK ?= requirements.lock
PIN = $(if $(LOCK),--constraint $(LOCK))

# Workers of one thread: a second OpenMP thread stalls the first when its core is busy.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 \
  --dist loadfile --no-loadscope-reorder $(PYTEST_ARGUMENTS)

.PHONY: audit lint quick test test-rest test-all release lock images faults soak fuzz vulnerabilities

audit: $(VENV)/installed
	$(BIN)/scotoma audit $(AUDIT_ARGUMENTS)

# After every change: nothing that starts other programs, trains or simulates.
quick: lint
	$(PYTEST) -m "not slow and not heavy and not thorough" tests

# Before every commit: four minutes. What is heavy, tests/tiers.py says.
test: $(VENV)/installed-test
	$(PYTEST) -m "not heavy and not thorough"

# Before a merge: what test left out, but for what only test-all does.
test-rest: $(VENV)/installed-test
	$(PYTEST) -m "heavy and not thorough"

# Before a release or a large merge: hours, a network, and Docker where it runs.
test-all: lint
	$(MAKE) vulnerabilities fuzz
	$(MAKE) faults FAULTS=200
	SCOTOMA_AUDITS=1000 $(PYTEST) -k hold_the_truth tests/bias tests/divergence tests/impact
	$(PYTEST)

# mypy reads the package as it is installed: components/ and pipelines/ inside it.
lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf $(VENV)/typed && mkdir $(VENV)/typed
	cp -a scotoma $(VENV)/typed/ && cp -a components pipelines $(VENV)/typed/scotoma/
	cd $(VENV)/typed && $(abspath $(BIN))/python -m mypy \
	  --config-file $(CURDIR)/pyproject.toml --cache-dir ../mypy --num-workers 2 -p scotoma

# All images, and an audit whose every step runs in them: gigabytes, so no part of the tests.
# dist/sbom lists what is in each; COSIGN_KEY and REGISTRY sign them (docs/operating.md).
images: $(VENV)/installed-test
	SBOM=$${SBOM:-dist/sbom} docker/build
	docker/try $(BIN)/python

# Kills at random moments, each resumed and compared: fifty take six minutes.
FAULTS ?= 50
faults: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults $(FAULTS)

# Readers of what comes from outside, ten seconds each: six minutes.
fuzz: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds 10

# Twelve audits in one process: does anything grow?
soak: $(VENV)/installed-test
	$(BIN)/python benchmarks/audits.py soak --audits 12

# What is known against the packages that are installed: needs a network, so no part of the tests.
vulnerabilities: $(VENV)/installed
	$(PYTHON) -m venv $(VENV)/pip-audit
	$(VENV)/pip-audit/bin/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip freeze --exclude-editable >$(VENV)/packages.txt
	$(VENV)/pip-audit/bin/pip-audit --strict --disable-pip --no-deps -r $(VENV)/packages.txt

# What a tag is cut from: dist/ with wheel and sdist, checked, and the wheel tried in an environment
# that has nothing but what pip brings with it. The wheel is built from the sdist.
release: $(VENV)/bin/python
	rm -rf dist $(VENV)/release $(VENV)/bare
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip install --quiet build twine
	$(VENV)/release/bin/python -m build --outdir dist . >$(VENV)/release/build.txt || \
	  { cat $(VENV)/release/build.txt; exit 1; }
	$(VENV)/release/bin/twine check --strict dist/*
	$(PYTHON) -m venv $(VENV)/bare
	$(VENV)/bare/bin/python -m pip install --quiet dist/*.whl
	mkdir $(VENV)/bare/logs
	cd $(VENV)/bare/logs && ../bin/python $(CURDIR)/examples/evaluation_logs.py
	cd $(VENV)/bare/logs && ../bin/scotoma --version && \
	  ../bin/scotoma compare bf16 w4a16 --reruns --group doc.category

# The newest releases, in an environment of their own. Commit what it writes once `make test` passes.
lock:
	rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/lock/bin/python -m pip install --quiet --editable '.[all,beam]' --group test
	{ echo "# Written by make lock: the versions that CI ran with."; \
	  $(VENV)/lock/bin/python -m pip freeze --all --exclude-editable | grep -v ^pip==; \
	} >requirements.lock
	rm -rf $(VENV)/lock

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 -m venv failed; on Debian: apt install python3-venv" >&2; exit 1; }

$(VENV)/installed: pyproject.toml setup.py $(LOCK) $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' $(PIN)
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test $(PIN)
	touch $@
