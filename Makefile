# The two commands of the README are `make demo` and `make test`. Each installs what is missing (see scripts/setup.sh).

.PHONY: help demo test bench rivals setup sample

help:
	@echo 'make demo    builds Fairspan and shows one TCP connection over three bonded links (90 seconds, and the build the first time)'
	@echo 'make test    format, lints, documentation, licences, unit, property and namespace tests, fuzz corpora'
	@echo 'make bench   one encrypted channel and the simulator beside their rivals (make rivals), and the core (divan)'
	@echo 'make rivals  installs wireguard-go, boringtun-cli, openvpn, ns-2 and ns-3, for make bench'
	@echo 'make setup   installs what building and testing needs'
	@echo 'make sample  measures the demo and puts its output into the README'

demo: setup
	@. scripts/toolchain.sh && cargo build --release --quiet -p fairspan
	@target/release/fairspan demo

test: setup
	@scripts/test.sh

bench: setup
	@. scripts/toolchain.sh && cargo build --release --quiet -p fairspan
	@. scripts/toolchain.sh && target/release/fairspan bench tunnel
	@. scripts/toolchain.sh && target/release/fairspan bench sim
	@. scripts/toolchain.sh && cargo bench -p fairspan-core

rivals: setup
	@scripts/rivals.sh

setup:
	@scripts/setup.sh

sample: setup
	@. scripts/toolchain.sh && cargo build --release --quiet -p fairspan
	@target/release/fairspan demo --json > docs/demo.json.new && mv docs/demo.json.new docs/demo.json
	@. scripts/toolchain.sh && UPDATE_README=1 cargo test --quiet -p fairspan the_readme_shows_what_the_demo_printed
