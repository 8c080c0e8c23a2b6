//! Attention.

use crate::{Emitted, assemble, emit};
use std::fmt::Write;

/// A kernel over row-major operands.
#[derive(Clone)]
struct Case {
    dtype: &'static str,
    causal: bool,
    softcap: bool,
    mask: bool,
    bias: bool,
    lse: bool,
    /// Batch, heads, heads of keys, queries, keys, width, width of values.
    sizes: [usize; 7],
}

impl Case {
    fn new(sizes: [usize; 7]) -> Self {
        Self { dtype: "bf16", causal: false, softcap: false, mask: false, bias: false, lse: false, sizes }
    }

    fn text(&self) -> String {
        let [batch, heads, kv_heads, queries, keys, width, value_width] = self.sizes;
        let dense = |heads: usize, rows: usize, columns: usize| {
            format!("[{}, {}, {columns}, 1]", heads * rows * columns, rows * columns)
        };
        let mut text = format!("attention {}", self.dtype);
        for (flag, word) in [(self.causal, " causal"), (self.softcap, " softcap")] {
            text.push_str(if flag { word } else { "" });
        }
        write!(
            text,
            " {{\n  batch {batch} heads {heads} kv_heads {kv_heads} queries {queries} keys {keys} width {width} \
             value_width {value_width}\n  query {} align 16\n  key {} align 16\n  value {} align 16\n",
            dense(heads, queries, width),
            dense(kv_heads, keys, width),
            dense(kv_heads, keys, value_width)
        )
        .unwrap();
        if self.mask {
            writeln!(text, "  mask {} align 1", dense(heads, queries, keys)).unwrap();
        }
        if self.bias {
            writeln!(text, "  bias [0, {}, {keys}, 1] align 16", queries * keys).unwrap();
        }
        writeln!(text, "  output {} align 16", dense(heads, queries, value_width)).unwrap();
        if self.lse {
            writeln!(text, "  lse [{}, {queries}, 1] align 16", heads * queries).unwrap();
        }
        text + "}"
    }
}

/// Lowers for a target and checks what holds for every attention kernel.
fn check(text: &str, target: &str) -> Emitted {
    let emitted = emit(text, target);
    assert!(!emitted.ptx.contains(".extern .func"), "{}", emitted.ptx);
    if let Some(said) = assemble(&emitted.ptx, target) {
        assert!(!said.contains("C75"), "{said}\n{text}");
        for line in said.lines().filter(|line| line.contains("spill")) {
            assert!(line.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{line}\n{text}");
        }
    }
    emitted
}

fn check_hopper(case: &Case) {
    let emitted = check(&case.text(), "sm_90a");
    assert!(emitted.ptx.contains("wgmma.mma_async"), "{}", case.text());
    assert_eq!(emitted.program.phases[0].tensor_maps.len(), 4);
}

#[test]
fn tensor_cores_attend_at_every_width() {
    let widths = [[16, 16], [40, 40], [64, 64], [80, 80], [128, 128], [192, 128], [192, 192], [256, 256]];
    for (index, [width, value_width]) in widths.into_iter().enumerate() {
        let causal = index % 2 == 0;
        check_hopper(&Case { causal, ..Case::new([2, 4, 2, 777, 1000, width, value_width]) });
    }
}

#[test]
fn tensor_cores_attend_with_masks_biases_and_caps() {
    for width in [64, 128, 192, 256] {
        let plain = Case::new([2, 4, 4, 129, 300, width, width]);
        check_hopper(&Case { mask: true, bias: true, softcap: true, causal: true, lse: true, ..plain });
    }
    let plain = Case::new([2, 4, 4, 129, 300, 64, 128]);
    check_hopper(&Case { mask: true, ..plain.clone() });
    check_hopper(&Case { dtype: "f16", bias: true, ..plain });
}

/// The shapes that speed is measured at.
#[test]
fn tensor_cores_attend_to_long_sequences() {
    let measured = [[8, 4096, 128], [8, 4096, 64], [64, 512, 64]];
    for [batch, tokens, width] in measured {
        let case = Case::new([batch, 16, 16, tokens, tokens, width, width]);
        check_hopper(&Case { causal: true, ..case.clone() });
        check_hopper(&Case { lse: true, ..case });
    }
    check_hopper(&Case { dtype: "f16", ..Case::new([8, 16, 16, 4096, 4096, 128, 128]) });
}
