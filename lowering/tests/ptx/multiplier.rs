//! Contractions on the matrix multiplier: `mma.sync` for f16, bf16 and Flex32.

use crate::{Emitted, TARGETS, check_for, count};

/// Checks for the target whose path this is.
fn check(text: &str) -> Emitted {
    check_for(text, TARGETS[0])
}

/// `out[m, n] = Σ left[..] · right[..]`.
fn product(domain: &str, left: &str, right: &str, out: &str, dtype: &str, align: usize) -> String {
    format!(
        "block [{domain}] () {{
  @0 = in {dtype} align {align}
  @1 = in {dtype} align {align}
  @2 = out {dtype} align 64
  %0 = load @0 [{left}] : {dtype}
  %1 = load @1 [{right}] : {dtype}
  %2 = contract %0, %1 : {dtype}
  store %2 -> @2 [{out}]
}}"
    )
}

#[test]
fn large() {
    let (m, n, k) = (4096, 4096, 4096);
    let domain = format!("p {m}, p {n}, r {k}");
    let lefts = [format!("{k}, 0, 1"), format!("1, 0, {m}")];
    let rights = [format!("0, {k}, 1"), format!("0, 1, {n}")];
    for dtype in ["bf16", "f16", "flex32"] {
        for left in &lefts {
            for right in &rights {
                let emitted = check(&product(&domain, left, right, &format!("{n}, 1, 0"), dtype, 64));
                assert!(emitted.ptx.contains("cp.async.cg.shared.global"), "{}", emitted.ptx);
                assert_eq!(count(&emitted.ptx, "mma.sync"), 64, "{}", emitted.ptx);
            }
        }
    }
}

/// Sizes and leading dimensions that fill no tile and are not aligned: by smaller copies, or through registers.
#[test]
fn narrow_accesses() {
    let kernel = |m: usize, n: usize, k: usize, pitch: usize, align: usize| {
        let (left, right) = (format!("{}, 0, 1", k + pitch), format!("0, 1, {}", n + pitch));
        product(&format!("p {m}, p {n}, r {k}"), &left, &right, &format!("{n}, 1, 0"), "bf16", align)
    };
    for (m, n, k, pitch, align, access) in [
        (100, 76, 332, 4, 64, "cp.async.ca.shared.global [%r"),
        (130, 70, 50, 6, 64, "], 4"),
        (130, 70, 50, 7, 64, "ld.global.b16"),
        (128, 64, 256, 0, 2, "ld.global.b16"),
        (100, 76, 332, 4, 8, "], 8"),
    ] {
        let emitted = check(&kernel(m, n, k, pitch, align));
        assert!(emitted.ptx.contains(access), "{access}\n{}", emitted.ptx);
        assert!(!emitted.ptx.contains("cp.async.cg"), "{}", emitted.ptx);
    }
}

/// Few tiles and a long sum: blocks share it, the last one adds and stores.
#[test]
fn shared_sums() {
    let emitted = check(&product("p 64, p 64, r 8192", "8192, 0, 1", "0, 1, 64", "64, 1, 0", "bf16", 64));
    let [phase] = &emitted.program.phases[..] else { panic!() };
    // Each part has its sums of all 64 × 64 results.
    let parts = emitted.program.shared_bytes / (64 * 64 * 4);
    assert!(parts >= 8 && u64::from(phase.grid[0]).is_multiple_of(parts), "{phase:?} {parts}");
    assert_eq!(count(&emitted.ptx, "atom.acq_rel.gpu.global.inc.u32"), 1, "{}", emitted.ptx);
}

/// A convolution over channels-last memory copies 16 bytes at once, whatever the window.
#[test]
fn a_convolution_over_channels() {
    let (batch, filters, channels, size) = (8usize, 64usize, 64usize, 30usize);
    let out = size - 2;
    let row = size * channels;
    let domain = format!("p {batch}, p {filters}, p {out}, p {out}, r {channels}, r 3, r 3");
    let input = format!("{}, 0, {row}, {channels}, 1, {row}, {channels}", size * row);
    let weights = format!("0, {}, 0, 0, 1, {}, {channels}", 9 * channels, 3 * channels);
    let result = format!("{}, {}, {out}, 1, 0, 0, 0", filters * out * out, out * out);
    let emitted = check(&product(&domain, &input, &weights, &result, "bf16", 64));
    assert!(emitted.ptx.contains("cp.async.cg") && !emitted.ptx.contains("cp.async.ca"), "{}", emitted.ptx);
    assert!(!emitted.ptx.contains("ld.global.b16"), "{}", emitted.ptx);
}
