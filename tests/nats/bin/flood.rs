//! A tenant that floods the servers with inputs: `nats-flood URLS TENANT N_INPUTS`. It has a worker
//! of four slots, whose model answers after 300 ms, and runs until it is killed. It prints the
//! counts of the flood as one line, and the time of each end of a turn, in milliseconds since 1970,
//! as a line.
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
