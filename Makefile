# make serve    install what is needed into .venv and serve (MODEL=…, ARGS="…")
# make test     install what is needed and run every test that this machine can run
# make fast     only the tests that need no server, within a minute
# make lint     style and types
# make dashboards    write the JSON of the Grafana dashboards
PYTHON ?= python3
MODEL ?=
ARGS ?=
SET := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
# The folders serve/ and kernels/ are packages of other names and must not be found under these.
export PYTHONSAFEPATH := 1

.PHONY: serve test fast lint dashboards lock

serve:
	@$(PYTHON) requirements/install.py $(SET)
	@exec .venv/bin/lorikeet $(if $(MODEL),serve $(MODEL),demo) $(ARGS)

test:
	@$(PYTHON) requirements/install.py test
	.venv/bin/python -m pytest $(ARGS)

fast:
	@$(PYTHON) requirements/install.py test
	.venv/bin/python -m pytest -m "not server and not slow and not docker and not browser" $(ARGS)

lint:
	@$(PYTHON) requirements/install.py test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	@mkdir -p build/types/lorikeet && cd build/types/lorikeet && ln -sfn ../../../serve ../../../kernels ../../../tuned_configs .
	.venv/bin/mypy

dashboards: # write deploy/grafana/dashboards from the code beside it
	PYTHONPATH=deploy/grafana .venv/bin/python -m lorikeet_dashboards

lock:
	requirements/lock.sh
