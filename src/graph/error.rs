//! Why a capture or a replay is refused.

/// A refused graph capture or replay. Whatever was run under a refused capture has run and its results are valid,
/// so the caller can go on without the graph, as Burn's `capture` does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// `graph_start_capture` without `graph_prepare` before it.
    #[error(
        "a capture starts with graph_prepare and at least one run of what is to be captured: a recording is compared with \
         the run before it"
    )]
    NotPrepared,
    /// `graph_start_capture` within a capture.
    #[error("this thread is capturing a graph already: captures do not nest")]
    Nested,
    /// `graph_stop_capture` without a capture.
    #[error("this thread captures no graph: none was started, or a later graph_prepare gave it up")]
    NotCapturing,
    /// The capture ran nothing.
    #[error("the captured closure computes nothing, so there is nothing to replay")]
    Empty,
    /// The capture never ends.
    #[error("more than {limit} operations since the capture started: it is given up")]
    TooLong {
        /// Most operations of a capture.
        limit: usize,
    },
    /// A tensor was read within the capture.
    #[error(
        "the captured closure reads a tensor (into_data, into_scalar, to_device): a replay cannot tell it what it would read \
         then"
    )]
    Read,
    /// Another thread used a tensor of the capture.
    #[error(
        "another thread uses a tensor of the captured closure: what it does with it cannot be part of the recording"
    )]
    Shared,
    /// The closure works on several devices.
    #[error("the captured closure also works on {device}: a graph belongs to one device")]
    Elsewhere {
        /// The other device.
        device: String,
    },
    /// A graph was replayed within the capture.
    #[error("the captured closure replays another graph, which cannot be part of a recording")]
    Replayed,
    /// Operations of the capture cannot be planned or compiled.
    #[error("part of the captured closure has failed: {reason}")]
    Failed {
        /// The error of the operations.
        reason: String,
    },
    /// No run before the capture did the same operations.
    #[error(
        "no run between graph_prepare and graph_start_capture did the same operations as the captured one ({difference}): \
         its scalars cannot be compared with anything. Run the same closure as often as it takes to settle, with a sync \
         after each run"
    )]
    NoEqualRun {
        /// Where the last run differs.
        difference: String,
    },
    /// A scalar changes from run to run.
    #[error(
        "the scalar of `{operation}` was {before} in a run before the capture and is {captured} in the captured one: every \
         replay would use {captured}. Keep it in a tensor that the closure reads, and write its new value in place \
         (slice_assign) before each replay"
    )]
    ScalarChanged {
        /// The operation that uses it, with the type of its result.
        operation: String,
        /// The value before the capture.
        before: String,
        /// The value in the capture.
        captured: String,
    },
    /// The capture draws random numbers.
    #[error(
        "`{operation}` draws random numbers, other ones in every run: every replay would repeat those of the capture. Draw \
         them outside, and write them in place (slice_assign) to a tensor that the closure reads"
    )]
    RandomNumbers {
        /// The drawing, with the type of its result.
        operation: String,
    },
    /// Data that comes from the host changes from run to run.
    #[error(
        "the closure makes a {tensor} from host data that was different in a run before the capture: every replay would use \
         the data of the capture. Write it in place (slice_assign) to a tensor that the closure reads, before each replay"
    )]
    DataChanged {
        /// Type of the tensor.
        tensor: String,
    },
    /// The closure does not read the same tensors in every run.
    #[error(
        "the closure reads another {tensor} in the captured run than in the one before, and it is not what that run left for \
         the next: every replay would read the one of the capture. Write new values in place (slice_assign); to see what \
         a closure carries from one run to the next takes two runs before the capture"
    )]
    TensorChanged {
        /// Type of the tensor.
        tensor: String,
    },
    /// A value that the run replaces is still in use.
    #[error(
        "the captured run replaces a {tensor} that it carries from run to run, but somebody still holds the value from before: \
         a replay would overwrite it. Drop it, or return a copy"
    )]
    StateHeld {
        /// Type of the tensor.
        tensor: String,
    },
    /// The captured run used up a tensor that it does not give back.
    #[error("the captured run overwrites a {tensor} that later runs would read")]
    InputOverwritten {
        /// Type of the tensor.
        tensor: String,
    },
    /// A tensor that a graph reads was replaced since by one that lies elsewhere.
    #[error(
        "a {tensor} that the graph reads was used up by an operation that could not write its result in the same place: the \
         replay would read the value from before. Write new values in place (slice_assign), or capture again"
    )]
    InputReplaced {
        /// Type of the tensor.
        tensor: String,
    },
    /// A graph of another device.
    #[error("the graph was captured on {captured} and cannot be replayed on {asked}")]
    OtherDevice {
        /// The device of the graph.
        captured: String,
        /// The device given.
        asked: String,
    },
}
