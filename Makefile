# What a bare Debian 12 machine needs is installed first; each step is skipped where it is done.
.PHONY: setup demo test inspect bench

setup:
	@./scripts/setup.sh

demo: setup
	cargo run --release --example digits

inspect: setup
	cargo run --release --example inspect

test: setup
	./scripts/test.sh

bench: setup
	cargo bench --bench workloads
