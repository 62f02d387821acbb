//! A tenant that floods: has a worker of four slots with a model of 300 ms, and sends inputs as fast as
//! it can: `nats-flood URLS TENANT N_INPUTS`. Runs until it is killed. Writes the counts of the flood as
//! one line, and then each end of a turn as a line with its time in milliseconds since 1970.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program of tests"
)]

use rind_nats::NatsConfig;
use rind_nats_tests::{TimedTenant, flood};

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [urls, tenant, n_inputs] = &args[..] else {
        panic!("nats-flood URLS TENANT N_INPUTS");
    };
    let config = NatsConfig::new(urls, tenant).unwrap();
    let mut noisy = TimedTenant::start(&config, 1, 300).await;
    let inbox = noisy.inbox.clone();
    let n_inputs = n_inputs.parse().unwrap();
    tokio::spawn(async move {
        let began = rind_lib::clock::now_ms();
        let counts = flood(&inbox, &format!("flood-{began}"), n_inputs).await;
        let took_ms = rind_lib::clock::now_ms() - began;
        println!("sent {} {} {took_ms}", counts.stored, counts.refused);
    });
    while let Some(moment) = noisy.moments.recv().await {
        if moment.is_end {
            println!("ended {}", moment.time_ms);
        }
    }
}
