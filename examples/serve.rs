//! Serves the devices of this machine: programs elsewhere send Burn's tensor operations here, over WebSocket.
//!
//! ```sh
//! cargo run --release --example serve -- --device cuda
//! ```
//!
//! A client is any program with `burn` and its feature `remote-websocket`. It needs nothing of burn-mlir:
//!
//! ```ignore
//! let host = RemoteHost::websocket("ws://localhost:3000");
//! let device = Device::remote_options(&host).init()?;
//! let x = Tensor::<1>::from_floats([1.0, 2.0], &device) * 2.0;
//! ```
//!
//! WebSocket is not encrypted. A token keeps out strangers on a network that is otherwise trusted.

use burn_mlir::{Mlir, MlirDevice};
use burn_remote::server::{BackendServer, TokenAuthorizer, WebSocketTransport};
use clap::{Parser, ValueEnum};
use std::error::Error;
use std::net::TcpListener;

/// Serves devices of this machine to programs that use Burn, until Ctrl+C.
#[derive(Parser)]
struct Options {
    /// TCP port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Address to listen on; 0.0.0.0 for all of this machine
    #[arg(long, default_value = "127.0.0.1")]
    address: String,
    /// What to serve: a client picks a device by its position
    #[arg(long, value_enum, default_value_t)]
    device: Served,
    /// What clients must show, with `RemoteHost::with_credential`
    #[arg(long)]
    token: Option<String>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Served {
    /// The processor
    #[default]
    Cpu,
    /// All GPUs
    Cuda,
    /// The processor, then all GPUs
    All,
}

impl Served {
    fn devices(self) -> Vec<MlirDevice> {
        let wanted = |device: &MlirDevice| match self {
            Self::Cpu => *device == MlirDevice::Cpu,
            Self::Cuda => matches!(device, MlirDevice::Cuda(_)),
            Self::All => true,
        };
        MlirDevice::available().into_iter().filter(wanted).collect()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let devices = options.device.devices();
    if devices.is_empty() {
        return Err("this machine has no GPU that burn-mlir can use".into());
    }
    let listener = TcpListener::bind((options.address.as_str(), options.port))
        .map_err(|error| format!("cannot listen on {}:{}: {error}", options.address, options.port))?;
    println!("burn-mlir serves on ws://{}", listener.local_addr()?);
    for (index, device) in devices.iter().enumerate() {
        println!("  device {index}: {device}");
    }
    println!("Ctrl+C ends it.");
    let mut server = BackendServer::<Mlir>::new(devices);
    if let Some(token) = options.token {
        server = server.with_authorizer(TokenAuthorizer::new(token)?);
    }
    server.serve(WebSocketTransport::from_listener(listener))?;
    Ok(())
}
