# Everything here works from a fresh clone: what is missing is installed first (contrib/setup.sh).
# ARGS is handed on:  make test ARGS="tests/mount -x"

PYTHON := .venv/bin/python
ARGS :=
# Where install-system puts things, and the root folder of the machine they are for, if that is not this one.
PREFIX := /usr/local
SBINDIR := /sbin
DESTDIR :=

.PHONY: help install install-system uninstall-system test demo look lint check bench bench-quick bench-crawls bench-crystal bench-centidb bench-write bench-urldb bench-inflate torture clean

help:
	@echo "make install   archivefs with all extras, as .venv/bin/archivefs"
	@echo "make install-system   archivefs for all users, with man pages, completion and desktop entries;"
	@echo "               PREFIX=/usr/local SBINDIR=/sbin DESTDIR="
	@echo "make uninstall-system   take exactly that away again"
	@echo "make demo      mount a sample site, look at it, copy it out, unmount"
	@echo "make look      show mounts in a real file manager, on a screen that nobody sees: build/look.png"
	@echo "make test      every test, real mounts included"
	@echo "make lint      formatting, ruff, mypy --strict"
	@echo "make check     lint, then test: what CI runs"
	@echo "make bench     measure, beside other tools; bench-quick: in less than five minutes"
	@echo "make torture   long runs: damaged archives, killed drivers"
	@echo "make clean     remove what the others made"

install:
	@contrib/setup.sh python

install-system:
	@contrib/setup.sh python
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m contrib.install --prefix "$(PREFIX)" --sbin "$(SBINDIR)" --destdir "$(DESTDIR)"

# Any Python will do.
uninstall-system:
	@PYTHONDONTWRITEBYTECODE=1 python3 -m contrib.install --uninstall --prefix "$(PREFIX)" --sbin "$(SBINDIR)" --destdir "$(DESTDIR)"

test:
	@contrib/setup.sh system desktop python
	$(PYTHON) -m pytest -n 2 --dist loadfile $(ARGS)

demo:
	@contrib/setup.sh system python
	@contrib/demo/run.sh

look:
	@contrib/setup.sh system desktop python
	@mkdir -p build
	@contrib/desktop/look.sh build/look.png build/look-open.png

lint:
	@contrib/setup.sh python
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

# Two makes, so that `make -j check` still lints first.
check:
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

bench:
	@contrib/setup.sh system peers python
	$(PYTHON) -m contrib.bench $(ARGS)

bench-quick:
	@contrib/setup.sh system peers python
	$(PYTHON) -m contrib.bench --quick $(ARGS)

bench-write:
	@contrib/setup.sh system peers python
	$(PYTHON) -m contrib.bench.writing $(ARGS)

bench-centidb:
	@contrib/setup.sh system python
	$(PYTHON) -m contrib.bench.centidb $(ARGS)

bench-urldb:
	@contrib/setup.sh system python
	$(PYTHON) -m contrib.bench.urldb $(ARGS)

# Which library inflates fastest: what the order in archivefs/zips/inflating.py rests on.
bench-inflate:
	@contrib/setup.sh python
	$(PYTHON) -m contrib.bench.inflate $(ARGS)

bench-crawls:
	@contrib/setup.sh system python
	$(PYTHON) -m contrib.bench.crawls $(ARGS)

# A Crystal project through the mount; REVISIONS says how large it is.
REVISIONS := 1000000
bench-crystal:
	@contrib/setup.sh system python
	$(PYTHON) -m contrib.bench.crystal --revisions $(REVISIONS) $(ARGS)

torture:
	@contrib/setup.sh system python
	$(PYTHON) -m contrib.torture $(ARGS)

clean:
	rm -rf .venv build dist archivefs.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
