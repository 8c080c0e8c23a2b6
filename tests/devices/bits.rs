//! Comparing the bits of what host and GPU compute.

use super::Named;
use crate::support::devices::gpu;
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, TensorData, read_sync};
use burn_mlir::{Mlir, MlirDevice, MlirTensor};

/// Collects what differs, so that one run shows all of it.
pub struct Comparison {
    other: MlirDevice,
    failures: Vec<String>,
}

impl Comparison {
    /// Nothing where there is no GPU to compare with.
    pub fn new() -> Option<Self> {
        let gpu = gpu();
        if gpu.is_none() {
            println!("there is no GPU to compare with");
        }
        Some(Self { other: gpu?, failures: Vec::new() })
    }

    /// Runs `compute` on both devices. What it returns is read when all of it is recorded, so that its
    /// kernels compile together.
    pub fn same(&mut self, compute: impl Fn(&MlirDevice) -> Named) {
        let (host, other) = (compute(&MlirDevice::Cpu), compute(&self.other));
        assert_eq!(host.len(), other.len());
        for ((name, host), (_, other)) in host.into_iter().zip(other) {
            match (bits(host), bits(other)) {
                (Ok(host), Ok(other)) => self.compare(&name, &host, &other),
                (Err(error), _) => self.failures.push(format!("{name} on the host: {error}")),
                (_, Err(error)) => self.failures.push(format!("{name} on {}: {error}", self.other)),
            }
        }
    }

    fn compare(&mut self, name: &str, host: &[u64], other: &[u64]) {
        if host.len() != other.len() {
            return self.failures.push(format!("{name}: {} and {} elements", host.len(), other.len()));
        }
        let differ: Vec<usize> = (0..host.len()).filter(|&i| host[i] != other[i]).collect();
        if let Some(&first) = differ.first() {
            self.failures.push(format!(
                "{name}: {} of {} differ, the first at {first}: {:#x} on the host, {:#x} on {}",
                differ.len(),
                host.len(),
                host[first],
                other[first],
                self.other
            ));
        }
    }

    /// Fails if anything differed.
    pub fn finish(self) {
        assert!(
            self.failures.is_empty(),
            "{} cases differ:\n{}",
            self.failures.len(),
            self.failures.join("\n")
        );
    }
}

/// The bits of each element; all NaNs of a type count as one.
fn bits(tensor: MlirTensor) -> Result<Vec<u64>, String> {
    let data = read_sync(Mlir::float_into_data(tensor)).map_err(|error| error.to_string())?;
    // Bits of the exponent and of the fraction.
    let format = match data.dtype() {
        DType::F64 => Some((11, 52)),
        DType::F32 => Some((8, 23)),
        DType::F16 => Some((5, 10)),
        DType::BF16 => Some((8, 7)),
        _ => None,
    };
    let one = |element: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        let bits = u64::from_le_bytes(bytes);
        match format {
            Some((exponent, fraction)) => {
                let infinity = ((1u64 << exponent) - 1) << fraction;
                let magnitude = bits & ((1u64 << (exponent + fraction)) - 1);
                if magnitude > infinity { u64::MAX } else { bits }
            }
            None => bits,
        }
    };
    Ok(data.as_bytes().chunks_exact(data.dtype().size()).map(one).collect())
}

/// A tensor of elements given by their bits.
fn from_bits(dtype: DType, bits: &[u64]) -> TensorData {
    let size = dtype.size();
    let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect();
    TensorData::from_bytes_vec(bytes, [bits.len()], dtype)
}

/// Values of a type over its whole range: all of a narrow type, of a wide one a million, and where functions
/// change their course.
pub fn input(dtype: DType) -> TensorData {
    from_bits(dtype, &patterns(dtype))
}

fn patterns(dtype: DType) -> Vec<u64> {
    match (dtype, dtype.size()) {
        (DType::Bool(_), _) => vec![0, 1, 1, 0, 1],
        (_, 1) => (0..1 << 8).collect(),
        (_, 2) => (0..1 << 16).collect(),
        (_, 4) => (0..1 << 20).map(|i| (i * 4093) & u32::MAX as u64).chain(edges(dtype)).collect(),
        _ => (0..1 << 18).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).chain(edges(dtype)).collect(),
    }
}

/// The bits of special values and of their neighbours.
fn edges(dtype: DType) -> Vec<u64> {
    let floats = [
        0.0,
        1e-45,
        f32::MIN_POSITIVE as f64,
        f64::MIN_POSITIVE,
        5e-324,
        1e-20,
        1e-3,
        0.25,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        std::f64::consts::PI,
        std::f64::consts::FRAC_PI_2,
        9.0,
        88.722_839,
        103.972_08,
        127.5,
        255.0,
        32767.5,
        65504.0,
        65519.9,
        709.782_712_893_384,
        745.133_219_101_941,
        8_388_608.0,
        2_147_483_647.0,
        2_147_483_648.0,
        4_294_967_296.0,
        9.007_199_254_740_992e15,
        9.223_372_036_854_776e18,
        1.844_674_407_370_955_2e19,
        3.402_823_47e38,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let around = |bits: u64| (0..9).map(move |step| bits.wrapping_add(step).wrapping_sub(4));
    let both = |value: f64| [value, -value];
    match dtype {
        DType::F64 => floats.into_iter().flat_map(both).flat_map(|v| around(v.to_bits())).collect(),
        DType::F32 => {
            floats.into_iter().flat_map(both).flat_map(|v| around((v as f32).to_bits() as u64)).collect()
        }
        DType::F16 => {
            floats.into_iter().flat_map(both).map(|v| half::f16::from_f64(v).to_bits() as u64).collect()
        }
        DType::BF16 => {
            floats.into_iter().flat_map(both).map(|v| half::bf16::from_f64(v).to_bits() as u64).collect()
        }
        DType::Bool(_) => vec![0, 1],
        _ => {
            let bits = 8 * dtype.size() as u32;
            let small = (0..80u64).flat_map(|v| [v, v.wrapping_neg()]);
            small.chain((0..bits).flat_map(|shift| around(1 << shift))).collect()
        }
    }
}

/// Two tensors of a type: values of the whole range against others, and every edge against every edge.
pub fn pairs(dtype: DType) -> (TensorData, TensorData) {
    let all = patterns(dtype);
    let step = (all.len() / (1 << 16)).max(1);
    let mut left: Vec<u64> = all.iter().copied().step_by(step).collect();
    let mut right = left.clone();
    right.rotate_left(left.len() / 3);
    let edges = edges(dtype);
    // Neighbours of an edge matter next to the edge itself, which the first list has.
    let edges: Vec<u64> =
        if edges.len() > 400 { edges.into_iter().skip(4).step_by(3).collect() } else { edges };
    for &a in &edges {
        for &b in &edges {
            left.push(a);
            right.push(b);
        }
    }
    (from_bits(dtype, &left), from_bits(dtype, &right))
}
