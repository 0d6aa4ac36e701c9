# Every target makes what it needs by itself: python3.11 with venv, and make, are all a machine must have.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.stamp
PROTOS_BIN := .venv-protos/bin
PROTOS_READY := .venv-protos/.stamp
BENCH_BIN := .venv-bench/bin
BENCH_READY := .venv-bench/.stamp
PEERS_BIN := .venv-peers/bin
PEERS_READY := .venv-peers/.stamp
TRITON_BIN := .venv-triton/bin
TRITON_READY := .venv-triton/.stamp
FARM_BIN := .venv-farm/bin
FARM_READY := .venv-farm/.stamp
DOCS_BIN := .venv-docs/bin
DOCS_READY := .venv-docs/.stamp
# Where pyenv keeps it, too, as its commands fail for a version that is not the chosen one.
PYTHON313 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3.13) $(shell command -v python3.13))
PYTHON313_BIN := .venv-python313/bin
PYTHON313_READY := .venv-python313/.stamp
AARCH64 := $(CURDIR)/.aarch64
AARCH64_READY := $(AARCH64)/.stamp
AARCH64_MISSING := $(strip $(foreach program,debootstrap qemu-aarch64-static,$(if $(shell command -v $(program)),,$(program))))

# Tests start many services, each of which would compile the source anew where bytecode may not be kept.
unexport PYTHONDONTWRITEBYTECODE
# Nothing but the package registry is asked: pyright ships its checker and node in wheels, and looks for no newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup lint types mypy mypy-platforms pyright layers protos protos-check sync sync-check settings settings-check support support-check surface surface-check translations check warm test pytest test-slow test-containers test-torch test-triton test-farm test-widths test-python313 test-aarch64 coverage mutants fuzz demo demo-abi demo-torch serve bench bench-abi bench-tenants bench-recovery bench-farm bench-farm-store bench-peers soak bench-kernels bench-conformance bench-dashboard cold faults-page conformance-faults pictures report-pictures dashboard-pictures vendor grafana grafana-check docs operator constraints dist previous-release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' Makefile

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[server,admin,conform,demo,otel]' --group dev
	touch $(READY)

setup: $(READY) ## the virtual environment, with everything pinned by constraints.txt

lint: $(READY) ## ruff, its format, and buf on the protos: their style, and that they only grew
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/previous_release.binpb

types: pyright mypy mypy-platforms ## mypy and pyright, both strict

mypy: $(READY)
	$(BIN)/mypy

# The client once more as it is on other systems: what they lack is an error, unless sys.platform guards it.
CLIENT := -p opserve_client -p opserve_pytest
mypy-platforms: $(READY) ## mypy on the client as on Windows and macOS
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 $(CLIENT)
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin $(CLIENT)

pyright: $(READY)
	$(BIN)/pyright

layers: $(READY) ## import-linter's contracts
	$(BIN)/lint-imports

# An environment of its own: code that protobuf 6's compiler generates runs with protobuf 6 and 7.
$(PROTOS_READY): pyproject.toml
	$(PYTHON) -m venv .venv-protos
	$(PROTOS_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PROTOS_BIN)/python -m pip install --quiet --group protos
	touch $(PROTOS_READY)

protos: $(PROTOS_READY) ## generates the Python code beside the protos
	$(PROTOS_BIN)/python tools/protos.py

protos-check: $(PROTOS_READY) ## fails when the generated code is stale
	$(PROTOS_BIN)/python tools/protos.py --check

sync: $(READY) ## generates the blocking client from the async one
	$(BIN)/python client/generate_sync.py

sync-check: $(READY) ## fails when the blocking client is stale
	$(BIN)/python client/generate_sync.py --check

settings: $(READY) ## writes docs/reference/settings.md from the settings
	$(BIN)/python tools/settings_page.py

settings-check: $(READY) ## fails when docs/reference/settings.md is stale
	$(BIN)/python tools/settings_page.py --check

support: $(READY) ## writes the table of docs/reference/operators.md from the registry
	$(BIN)/python tools/support_table.py

support-check: $(READY) ## fails when that table is stale
	$(BIN)/python tools/support_table.py --check

surface: $(READY) ## writes the lists of docs/reference/public-surface.md from the code
	$(BIN)/python -m tools.public_surface

surface-check: $(READY) ## fails when they are stale
	$(BIN)/python -m tools.public_surface --check

translations: $(READY) ## after a Chinese page is revised: records the English sections that it translates
	$(BIN)/python -m tools.translations --accept

CHECKS := mypy lint layers protos-check sync-check settings-check support-check surface-check grafana-check
check: types $(CHECKS) ## every check that runs no test

warm: $(READY) ## compiles the kernels into their cache, or finds them there
	$(BIN)/opserve warmup

# Pyright, the longest check, takes one core for a minute, and the tests leave a sixth of two cores idle.
test: $(READY) ## every check but mypy's for other systems, and all tests but the slow ones
	$(MAKE) --jobs=2 --output-sync warm $(CHECKS)
	$(MAKE) --jobs=2 pyright pytest

# PyTorch is large, so its samples run where its environment is: make test-torch makes it.
TORCH_SAMPLES := $(BENCH_BIN)/python -m pytest -m "torch and not slow" tests/client/test_torch_samples.py
pytest: $(READY)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not slow"
	$(if $(wildcard $(BENCH_READY)),$(TORCH_SAMPLES))

test-slow: warm ## the slow tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not containers"

test-containers: $(READY) ## the image and the compose files in an engine of their own (as root; needs docker.io and debootstrap)
	$(BIN)/python -m pytest -m containers tests/containers

test-torch: $(BENCH_READY) ## the tests that need PyTorch, in the environment of make bench-kernels; OPSERVE_PYTORCH_TESTS=test_convolution.py adds PyTorch's own
	$(BENCH_BIN)/opserve warmup
	$(BENCH_BIN)/python -m pytest -n 2 --dist worksteal -m torch tests/client

# An environment of its own: Triton's client needs protobuf 6.
$(TRITON_READY): pyproject.toml
	$(PYTHON) -m venv .venv-triton
	$(TRITON_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TRITON_BIN)/python -m pip install --quiet --group triton
	touch $(TRITON_READY)

test-triton: warm $(TRITON_READY) ## Triton's stock clients, from .venv-triton, call a service; OPSERVE_PERF_ANALYZER=path adds perf_analyzer
	OPSERVE_TRITON_PYTHON=$(CURDIR)/$(TRITON_BIN)/python $(BIN)/python -m pytest -m "triton or perf_analyzer" tests/system $(ARGS)

# An environment of its own: Ray is large, and nothing else needs it.
$(FARM_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-farm
	$(FARM_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(FARM_BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[server,ray]' --group farm --group dev
	touch $(FARM_READY)

# In namespaces of their own, as Ray replaces loopback by another address of the machine, and leaves processes behind.
test-farm: warm $(FARM_READY) ## services that Ray places, and drills with it, from .venv-farm (as root, for unshare)
	tools/in_namespaces.sh $(FARM_BIN)/python -m pytest -m farm tests/system/test_ray_farm.py tests/test_deployments.py $(ARGS)

WIDTHS := OPSERVE_KERNEL_LANES=4 OPSERVE_KERNEL_LANES=8 OPSERVE_PLAIN_KERNELS=1
WIDTH_TESTS := tests/kernels/algorithms tests/kernels/test_against_reference.py tests/kernels/test_guard_pages.py

# A folder each: loops for three more widths would crowd out those of this computer.
test-widths: $(READY) ## the kernels' tests on vectors of 4 and 8 values, and on plain loops
	set -e; for width in $(WIDTHS); do \
		echo "$$width"; export "$$width" NUMBA_CACHE_DIR=".widths/$$width"; \
		$(BIN)/opserve warmup; $(BIN)/python -m pytest -n 2 $(WIDTH_TESTS); unset "$${width%=*}"; \
	done

$(PYTHON313_READY): pyproject.toml constraints.txt
	$(PYTHON313) -m venv .venv-python313
	$(PYTHON313_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PYTHON313_BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[server,conform,demo,otel]' --group dev
	touch $(PYTHON313_READY)

ifeq ($(PYTHON313),)
test-python313:
	@echo "not run: Python 3.13 is missing (PYTHON313=path names one)"
else
test-python313: export NUMBA_CACHE_DIR := $(CURDIR)/.venv-python313/loops
test-python313: $(PYTHON313_READY) ## the tests but the slow ones on Python 3.13
	$(PYTHON313_BIN)/opserve warmup
	$(PYTHON313_BIN)/python -m pytest -n 4 --dist worksteal -m "not slow" tests/client tests/contract tests/kernels tests/server tests/simulation
endif

# Debian's Python for aarch64, unpacked and not set up, and wheels for it. An emulator runs it: see the script.
AARCH64_PYTHON := tools/aarch64_python.sh
$(AARCH64_READY): $(READY)
	rm -rf $(AARCH64)
	debootstrap --foreign --arch=arm64 --variant=minbase --include=python3.11 bookworm $(AARCH64)
	set -e; for package in $(AARCH64)/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$$package" $(AARCH64); done
	$(BIN)/uv pip install --quiet --python $(BIN)/python --python-platform aarch64-manylinux_2_28 --only-binary :all: \
		--target $(AARCH64)/usr/local/lib/python3.11/dist-packages --constraint constraints.txt --editable '.[server,conform]' \
		hypothesis playwright pytest pytest-asyncio pytest-timeout trustme
	touch $(AARCH64_READY)

# Each algorithm once, of both accuracies, in float32 and 16 bits; the client; a service that the client calls.
AARCH64_TESTS := $(addprefix tests/kernels/algorithms/test_,host.py micro_kernels.py forced.py) tests/kernels/test_precision.py \
	$(addprefix tests/client/test_,arguments.py connection.py grpc_transport.py rest_transport.py session.py tensors.py transfers.py)

ifneq ($(AARCH64_MISSING),)
test-aarch64:
	@echo "not run: missing are $(AARCH64_MISSING) (apt-get install debootstrap qemu-user-static)"
else
test-aarch64: export NUMBA_CACHE_DIR := $(AARCH64)/loops
test-aarch64: $(AARCH64_READY) ## kernels on NEON, client and service on an emulated aarch64 (as root, for debootstrap); half an hour
	$(AARCH64_PYTHON) -m pytest -p no:cacheprovider --timeout 1800 $(AARCH64_TESTS)
	$(AARCH64_PYTHON) tools/smoke.py
endif

OPSERVE_FUZZ_TIMES ?= 25
fuzz: warm ## many requests that no client writes (OPSERVE_FUZZ_TIMES=100 OPSERVE_FUZZ_SEED=7)
	OPSERVE_FUZZ_TIMES=$(OPSERVE_FUZZ_TIMES) $(BIN)/python -m pytest -s tests/fuzz

coverage: warm ## the tests of `make test` with branch coverage
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not slow" --cov --cov-report=term-missing:skip-covered

SEED ?= 1
mutants: warm ## mutants drawn by a seed, each run against tests that execute its line (SEED=7); at most 60 minutes
	$(BIN)/python -m tools.mutants --seed $(SEED) $(ARGS)

demo: $(READY) ## trains a small network, every convolution and its gradients by the service (ARGS="--picture loss.png")
	$(BIN)/opserve demo $(ARGS)

demo-torch: $(BENCH_READY) ## trains a small network of PyTorch, whose convolutions and gradients the service computes
	$(BENCH_BIN)/python -m tools.notebook docs/how-to/torch.ipynb

demo-abi: $(READY) ## every operator of aclnn through the C library, beside the SDK, bit by bit (needs g++)
	$(BIN)/python -m tools.demo_abi

serve: $(READY) ## the service on its default loopback ports
	$(BIN)/opserve serve

bench: $(READY) ## the service beside its yardsticks (ARGS="--rounds 3"); writes benchmarks/out/service.json and a section of docs/reference/capacity.md
	$(BIN)/python -m benchmarks.service $(ARGS)

bench-tenants: $(READY) ## eight tenants, one of them hostile (ARGS="--rounds 3"); writes benchmarks/out/tenants.json
	$(BIN)/python -m benchmarks.tenants $(ARGS)

bench-abi: $(READY) ## the C library beside its goals (needs g++; ARGS="--rounds 3"); writes benchmarks/out/abi.json
	$(BIN)/python -m benchmarks.abi $(ARGS)

bench-recovery: $(READY) ## seconds until eight tenants go on after the front was killed and started again (ARGS="--rounds 3")
	$(BIN)/python -m benchmarks.recovery $(ARGS)

bench-farm: $(READY) ## the rate of two services beside that of one, moves and recovery (ARGS="--rounds 3"); writes benchmarks/out/farm_calls.json
	PYTHONPATH=tests $(BIN)/python -m benchmarks.farm_calls $(ARGS)

bench-farm-store: $(READY) ## the directory of 1,000 services in one PostgreSQL (ARGS="--services 100 --seconds 10")
	PYTHONPATH=tests $(BIN)/python -m benchmarks.farm_store $(ARGS)

# An environment of its own: Triton's wheel needs an older NumPy.
$(PEERS_READY): pyproject.toml
	$(PYTHON) -m venv .venv-peers
	$(PEERS_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(PEERS_BIN)/python -m pip install --quiet --group peers
	touch $(PEERS_READY)

bench-peers: $(READY) $(PEERS_READY) ## opserve beside Triton and bare servers (ARGS="--rounds 3"); writes benchmarks/out/peers.json
	$(BIN)/python -m benchmarks.peers --python $(PEERS_BIN)/python $(ARGS)

soak: $(READY) ## mixed traffic for 30 minutes (ARGS="--minutes 1"): failures by reason, and whether anything grows; writes benchmarks/out/soak.json
	$(BIN)/python -m benchmarks.soak $(ARGS)

bench-conformance: $(READY) ## what conformance costs (needs Chromium); writes benchmarks/out/conformance.json
	$(BIN)/python -m benchmarks.conformance

bench-dashboard: $(READY) ## the dashboard with 1,000 sessions, and small calls beside open pages (needs Chromium)
	$(BIN)/python -m benchmarks.dashboard $(ARGS)

cold: $(BENCH_READY) ## the suite smoke where nothing is compiled or kept; writes benchmarks/out/cold.json
	$(BENCH_BIN)/python -m benchmarks.cold

report-pictures: $(READY) ## draws the pictures of the conformance report in docs/pictures (needs Chromium)
	$(BIN)/python -m tools.report_pictures

dashboard-pictures: $(READY) ## draws the pictures of the dashboard in docs/pictures (needs Chromium)
	$(BIN)/python -m tools.dashboard_pictures

vendor: $(READY) ## files of other projects that the service's pages load, by npm, with their digests
	$(BIN)/python -m tools.vendor

grafana: $(READY) ## the Grafana dashboard docs/grafana/opserve.json
	$(BIN)/python -m tools.grafana

grafana-check: $(READY) ## fails when that dashboard is stale
	$(BIN)/python -m tools.grafana --check

faults-page: $(READY) ## kernels that are wrong on purpose, which must be caught; writes docs/reference/conformance-faults.md
	PYTHONPATH=tests $(BIN)/python -m conformance.page

conformance-faults: faults-page $(BENCH_READY) ## kernels that are wrong on purpose, which must be caught; PyTorch's and ours over 20 seeds, which must not; writes docs/reference/conformance-faults.md
	PYTHONPATH=tests $(BENCH_BIN)/python -m conformance.alarms $(ARGS)

# An environment of its own: PyTorch is large, and nothing else needs it.
$(BENCH_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	$(BENCH_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BENCH_BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[server,conform,demo,torch]' --group bench --group dev
	touch $(BENCH_READY)

bench-kernels: $(BENCH_READY) ## the kernels beside PyTorch (ARGS="--quick"); writes benchmarks/out/kernels.{json,csv,png}
	$(BENCH_BIN)/python -m benchmarks.kernels $(ARGS)

pictures: $(BENCH_READY) ## draws the pictures of docs/explanation/kernels.md
	MPLBACKEND=Agg $(BENCH_BIN)/python tools/kernel_pictures.py
	MPLBACKEND=Agg $(BENCH_BIN)/python tools/kernel_growth.py

$(DOCS_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	$(DOCS_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(DOCS_BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	touch $(DOCS_READY)

docs: $(DOCS_READY) ## the documentation as a site that needs no network: build/site/index.html
	$(DOCS_BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs . build/site

operator: $(READY) $(PROTOS_READY) ## make operator NAME=x: the skeleton of a new operator
	$(BIN)/python tools/new_operator.py "$(NAME)"
	$(PROTOS_BIN)/python tools/protos.py

constraints: $(READY) ## resolves constraints.txt anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links --all-extras --group bench --group dev --group docs --group farm pyproject.toml --output-file constraints.txt

dist: $(READY) ## the wheel and the sdist, in dist/
	$(BIN)/python -m hatchling build

previous-release: $(READY) ## after a release: its protos and public names are those that later ones are compared with
	$(BIN)/buf build protos --exclude-source-info --output protos/previous_release.binpb
	$(BIN)/python -m tools.public_surface --names tests/previous_release_names.txt

clean: ## removes everything that make made
	rm -rf .venv .venv-protos .venv-python313 .aarch64 .venv-bench .venv-docs .venv-farm .venv-peers .venv-triton .widths .mutants .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache .coverage .coverage.* dist build benchmarks/out
	find protos kernels server client tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
