//! What a closure carries from one run to the next is carried from replay to replay.

use super::{record, replay, tensor, values};
use crate::support::devices::{device, each};
use burn::prelude::*;
use burn_mlir::MlirGraph;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn state_moves_on_with_each_replay() {
    each(|| {
        // p stays in place or moves, at the planner's choice; q is a product, which never is in place.
        let w = Tensor::<2>::from_floats([[0.0, 1.0], [1.0, 1.0]], &device());
        let mut state = Some((tensor(&[1.0, 1.0]), Tensor::<2>::from_floats([[1.0, 0.0]], &device())));
        let (held, graph) = {
            let state = &mut state;
            let (_, graph) = record(|| {
                let (p, q) = state.take().unwrap();
                *state = Some((p * 2.0, q.matmul(w.clone())));
            });
            (state.clone().unwrap(), graph.unwrap())
        };
        // Fibonacci numbers.
        let power = |n: i32| [2f32.powi(n); 2];
        let fibonacci = |n: usize| (0..n).fold((1.0, 0.0), |(a, b), _| (b, a + b));
        for step in 4..20 {
            assert_eq!(values(&held.0), power(step));
            let (a, b) = fibonacci(step as usize);
            assert_eq!(values(&held.1), [a, b]);
            replay(&graph);
        }
        // State can be written to, as any input.
        drop(held);
        let (p, q) = state.take().unwrap();
        let p = p.slice_assign(s![0..1], tensor(&[0.0]));
        replay(&graph);
        assert_eq!(values(&p), [0.0, 2f32.powi(21)]);
        assert_eq!(values(&q)[0], fibonacci(21).0);
    });
}

#[test]
fn state_that_changes_places_is_carried() {
    each(|| {
        let mut state = Some((tensor(&[1.0, 2.0, 3.0]), tensor(&[10.0, 20.0, 30.0])));
        let mut expected = (vec![1f32, 2.0, 3.0], vec![10f32, 20.0, 30.0]);
        let mut step = || {
            let (p, q) = expected.clone();
            expected =
                (q.iter().map(|q| q + 1.0).collect(), p.iter().zip(&q).map(|(p, q)| p * 0.5 + q).collect());
            expected.clone()
        };
        let (_, graph) = record(|| {
            let (p, q) = state.take().unwrap();
            state = Some((q.clone() + 1.0, p * 0.5 + q));
        });
        let graph = graph.unwrap();
        (0..3).for_each(|_| drop(step()));
        for _ in 0..6 {
            let (p, q) = step();
            let held = state.clone().unwrap();
            assert_eq!((values(&held.0), values(&held.1)), (p, q));
            replay(&graph);
        }
    });
}

#[test]
fn two_graphs_share_state() {
    each(|| {
        // Products, so that no state is updated in place: all of it is carried by one copy.
        let w = Tensor::<2>::from_floats([[2.0, 0.0], [0.0, 2.0]], &device());
        let start = |value: f32| Tensor::<2>::full([1, 2], value, &device());
        let states: Rc<RefCell<Vec<Tensor<2>>>> =
            Rc::new(RefCell::new((1..=5).map(|i| start(i as f32)).collect()));
        let step = || {
            let old = states.take();
            *states.borrow_mut() = old.into_iter().map(|p| p.matmul(w.clone())).collect();
        };
        let (_, doubling) = record(step);
        let doubling = doubling.unwrap();
        assert_eq!(doubling.launches(), 5 + 1);
        let (sum, adding) = record(|| states.borrow().iter().cloned().reduce(|a, b| a + b).unwrap());
        let adding = adding.unwrap();
        let mut factor = 16.0;
        let mut check = |by: f32, graphs: &[&MlirGraph]| {
            factor *= by;
            graphs.iter().for_each(|graph| replay(graph));
            assert_eq!(values(&sum), [15.0 * factor; 2]);
            for (index, state) in states.borrow().iter().enumerate() {
                assert_eq!(values(state), [(index + 1) as f32 * factor; 2]);
            }
        };
        check(1.0, &[&adding]);
        check(2.0, &[&doubling, &adding]);
        check(4.0, &[&doubling, &doubling, &adding]);
        // A write to one state touches no other.
        states.borrow_mut()[2].inplace(|p| p.slice_assign([0..1, 0..2], start(3.0 * 128.0)));
        check(1.0, &[&adding]);
        check(2.0, &[&doubling, &adding]);
        // In place, where the first graph's state lies.
        let halving = record(|| {
            let old = states.take();
            *states.borrow_mut() = old.into_iter().map(|p| p * 0.5).collect();
        });
        let halving = halving.1.unwrap();
        check(1.0 / 16.0, &[&adding]);
        check(1.0, &[&halving, &doubling, &adding]);
        check(0.5, &[&halving, &adding]);
        check(2.0, &[&doubling, &adding]);
    });
}
