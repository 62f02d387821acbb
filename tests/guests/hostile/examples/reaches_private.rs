//! Asks for addresses that no plugin may reach, in every spelling.

#[rind_sdk::plugin]
mod reaches_private {
    use rind_sdk::http;
    use rind_sdk::prelude::*;

    /// Tries one after another; says why the last was refused.
    #[tool(effect = "external")]
    fn attack() -> Result<String, Error> {
        let hosts = [
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "0.0.0.0",
            "[::]",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[fc00::1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "224.0.0.1",
            "255.255.255.255",
        ];
        let mut last = String::new();
        for host in hosts {
            for scheme in ["http", "https"] {
                match http::send(&http::Request::get(format!("{scheme}://{host}/"))) {
                    Ok(_) => return Ok(format!("PWNED: {scheme}://{host}")),
                    Err(Error::Denied(why)) => last = why,
                    Err(other) => return Ok(format!("PWNED: {host} was tried: {other:?}")),
                }
            }
        }
        Ok(format!("all refused, the last because {last}"))
    }
}
