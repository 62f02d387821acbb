//! A loop that opens WebSockets as its settings say, and a tool that tries to.

#[rind_sdk::plugin]
mod socket {
    use std::time::Duration;

    use rind_sdk::prelude::*;
    use rind_sdk::waiting::{WakeConditions, Wakeup};
    use rind_sdk::websocket::{ConnectRequest, ConnectionEvent, Frame};

    fn again(reason: impl Into<String>) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_secs(3600),
            reason: reason.into(),
        })
    }

    /// Waits for events until the connection has ended or nothing came for a while. Returns the
    /// number of messages, the last one, and the end.
    fn listen(connection: u32) -> Result<String, Error> {
        let (mut n, mut last) = (0, String::new());
        let until = WakeConditions::new()
            .message()
            .timeout(Duration::from_secs(20));
        loop {
            match waiting::wait(&until)? {
                Wakeup::Connection(number) if number == connection => {}
                other => return Ok(format!("{n} messages, {last}; {other:?}")),
            }
            while let Some(event) = websocket::receive(connection)? {
                match event {
                    ConnectionEvent::Message(Frame::Text(text)) => {
                        n += 1;
                        last = text.chars().take(60).collect();
                    }
                    ConnectionEvent::Message(Frame::Binary(bytes)) => {
                        n += 1;
                        last = format!("{} bytes", bytes.len());
                    }
                    ConnectionEvent::Closed(why) => return Ok(format!("{n} {last}; {why}")),
                }
            }
        }
    }

    fn act(how: &str, url: &str) -> Result<String, Error> {
        let request = ConnectRequest {
            protocols: vec!["test.v1".to_owned()],
            ..ConnectRequest::new(url)
        };
        let connection = websocket::open(&request)?;
        match how {
            "echo" => {
                websocket::send_text(connection, "hello")?;
                websocket::send_binary(connection, vec![0; 1000])?;
                websocket::send_text(connection, "bye")?;
                listen(connection)
            }
            "listen" => listen(connection),
            // Takes nothing while the server sends.
            "slow" => {
                waiting::wait(&WakeConditions::new().timeout(Duration::from_secs(4)))?;
                listen(connection)
            }
            "many" => {
                let mut n = 1;
                loop {
                    match websocket::open(&request) {
                        Ok(_) => n += 1,
                        Err(error) => return Ok(format!("{n} opened, then {error:?}")),
                    }
                }
            }
            "long" => websocket::send_text(connection, "x".repeat((1 << 20) + 1))
                .map(|()| "sent".to_owned()),
            "secret" => websocket::send_text(
                connection,
                concat!("gh", "p_x7Kq2mZp9RtY4wLs8VbN3cJd6FhG1aQe5UiO"),
            )
            .map(|()| "sent".to_owned()),
            "closed" => {
                websocket::close(connection)?;
                let sent = websocket::send_text(connection, "late");
                Ok(format!("{sent:?} {:?}", websocket::receive(connection)))
            }
            _ => Ok("left open".to_owned()),
        }
    }

    #[run_loop]
    fn run() -> Result<LoopOutcome, Error> {
        let how: String = config::get("how")?.unwrap_or_default();
        let url: String = config::get("url")?.unwrap_or_default();
        again(act(&how, &url).unwrap_or_else(|error| format!("{error:?}")))
    }

    /// Tries to open a connection in a tool.
    #[tool(effect = "read")]
    fn connect() -> Result<String, Error> {
        let url: String = config::get("url")?.unwrap_or_default();
        websocket::open(&ConnectRequest::new(url)).map(|number| number.to_string())
    }
}
