# The two commands of the README are `make demo` and `make test`. Each installs what is missing (see scripts/setup.sh).

.PHONY: help demo test test-all mutants bench rivals setup sample dist package static openwrt container wheel book

help:
	@echo 'make demo      builds Fairspan and shows one TCP connection over three bonded links (two minutes, and the build the first time)'
	@echo 'make test      format, lints, documentation, licences, unit, property and namespace tests, fuzz corpora'
	@echo 'make test-all  the same, every kept scenario to its end, all features, and measurements of real programs'
	@echo 'make mutants   changes the core'\''s algorithms in small ways and says which change no test sees (two hours at most; goes on where it stopped)'
	@echo 'make bench     one encrypted channel and the simulator beside their rivals (make rivals), and the core (divan)'
	@echo 'make rivals    installs wireguard-go, boringtun-cli, openvpn, ns-2 and ns-3, for make bench'
	@echo 'make dist      builds what is shipped: target/dist/fairspan, its line tables and its parts list beside it'
	@echo 'make package   builds the Debian package: target/package/fairspan_VERSION_ARCHITECTURE.deb'
	@echo 'make static    builds a program that needs no libraries: target/static/ARCHITECTURE/fairspan'
	@echo 'make openwrt   makes a package for routers with OpenWrt of it: target/openwrt/fairspan_VERSION_ARCHITECTURE.ipk'
	@echo 'make container makes a container image of it: target/container/fairspan-VERSION-ARCHITECTURE.tar'
	@echo '               these four also for another architecture: FAIRSPAN_ARCHITECTURE=aarch64 or armv7'
	@echo 'make wheel     builds the Python package: target/wheels/fairspan-VERSION-cp39-abi3-PLATFORM.whl'
	@echo 'make book      makes a book of the documents: target/book/index.html'
	@echo 'make setup     installs what building and testing needs'
	@echo 'make sample    measures the demo and puts its output into the README'

demo: setup
	@echo 'Building Fairspan (the first time two to three minutes on two cores) ...'
	@. scripts/toolchain.sh && cargo build --profile demo -p fairspan
	@target/demo/fairspan demo

test: setup
	@scripts/test.sh

test-all: setup
	@scripts/test.sh all

mutants: setup
	@scripts/mutants.sh

bench: setup
	@. scripts/toolchain.sh && cargo build --release -p fairspan
	@. scripts/toolchain.sh && target/release/fairspan bench tunnel
	@. scripts/toolchain.sh && target/release/fairspan bench sim
	@. scripts/toolchain.sh && cargo bench -p fairspan-core

rivals: setup
	@scripts/rivals.sh

setup:
	@scripts/setup.sh

# The program without symbols, a file from which debuggers take them, and the list of what it is made of: in one folder.
dist: setup
	@scripts/dist.sh target/dist
	@scripts/sbom.sh target/dist/fairspan.cdx.json
	@ls -l target/dist

# The same program, with manual pages, completions and units for systemd, as a Debian package.
package: setup
	@scripts/package.sh target/package

# A program that needs nothing but a kernel.
static: setup
	@scripts/static.sh

openwrt: static
	@scripts/openwrt.sh

container: static
	@scripts/container.sh

# The simulator for Python: one wheel for every version from 3.9 on.
wheel: setup
	@scripts/python.sh wheel target/wheels

# The documents as pages that can be searched.
book: setup
	@scripts/book.sh target/book

sample: setup
	@. scripts/toolchain.sh && cargo build --profile demo -p fairspan
	@target/demo/fairspan demo --json > docs/demo.json.new && mv docs/demo.json.new docs/demo.json
	@. scripts/toolchain.sh && UPDATE_README=1 cargo test --quiet -p fairspan the_readme_shows_what_the_demo_printed
