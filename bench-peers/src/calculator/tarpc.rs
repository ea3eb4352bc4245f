//! On tarpc with bincode.

use ::tarpc::server::{BaseChannel, Channel};
use ::tarpc::{client, context, serde_transport};
use anyhow::Result;
use futures::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_serde::formats::Bincode;
use tokio_util::codec::LengthDelimitedCodec;

use super::serve;
use crate::figures::Figures;
use crate::listener::{Accepted, Address, Listener};
use crate::load::{self, Adder, Shape};

#[::tarpc::service]
trait Calculator {
    async fn add(x: u32, y: u32) -> u32;
}

#[derive(Clone)]
struct Service;

impl Calculator for Service {
    async fn add(self, _: context::Context, x: u32, y: u32) -> u32 {
        x.wrapping_add(y)
    }
}

impl Adder for CalculatorClient {
    async fn add(&self, x: u32, y: u32) -> Result<u32> {
        Ok(CalculatorClient::add(self, context::current(), x, y).await?)
    }
}

pub(super) fn run(shape: Shape, listener: Listener, address: Address, reactors: usize) -> Result<Figures> {
    serve(listener, reactors, |mut accepted: UnboundedReceiver<Accepted>| async move {
        while let Some(accepted) = accepted.recv().await {
            let Ok(stream) = accepted.adopt() else { continue };
            let framed = LengthDelimitedCodec::builder().new_framed(stream);
            let channel = BaseChannel::with_defaults(serde_transport::new(framed, Bincode::default()));
            // A task for each request, as in its documentation.
            tokio::spawn(channel.execute(Service.serve()).for_each(|response| async {
                tokio::spawn(response);
            }));
        }
    });
    load::run(shape, move || connect(address.clone()))
}

async fn connect(address: Address) -> Result<CalculatorClient> {
    let framed = LengthDelimitedCodec::builder().new_framed(address.connect()?);
    let transport = serde_transport::new(framed, Bincode::default());
    Ok(CalculatorClient::new(client::Config::default(), transport).spawn())
}
