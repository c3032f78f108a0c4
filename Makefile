# make help says what there is. JUPYTER_ARGS go to JupyterLab, PYTHON names the Python for .venv, STAGES and SLOW say what make test runs, and how.
.DEFAULT_GOAL := help
.PHONY: help setup lab test clean
export PYTHON

help: ## list these targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## make .venv, install what the labs need, fetch the model
	@sh scripts/setup.sh lab

lab: setup ## set up what is missing and open JupyterLab on lab 00
	@.venv/bin/python -m lablib open
	@exec .venv/bin/jupyter lab --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url="/lab/tree/$$(ls work/00_*.ipynb)" $(JUPYTER_ARGS)

test: ## set up with the test tools and run every check (STAGES="lint unit": these; SLOW=1: as on one core with AVX2)
	@sh scripts/setup.sh test
	@.venv/bin/python scripts/test.py $(if $(SLOW),--slow) $(STAGES)

clean: ## remove .venv and caches; your work/ and the model stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
