//! Classifies IP addresses: public, private, or never allowed for plugins.
//!
//! The tables come from the IANA registries of special-purpose addresses and from the documentation
//! of cloud metadata services. An address that embeds another one (mapped, translated, tunnelled)
//! gets the stricter class of the two, or the class of the inner address if packets are routed to
//! the inner address. Start from [`classify_address`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// Class of an address, which decides whether plugins may connect to it. Later classes are
/// stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpAddressClass {
    /// Address in the public network: allowed for every granted host.
    Public,
    /// Loopback, private, link-local, documentation: allowed only if listed as a private host.
    Private,
    /// Cloud metadata, multicast, reserved: never allowed, even if listed as a private host.
    Never,
}

/// Class of an address and a description of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpAddressKind {
    /// Class of the address, which decides whether requests to it are allowed.
    pub class: IpAddressClass,
    /// Description of the network for messages, to be used after "is".
    pub name: &'static str,
}

const PUBLIC_ADDRESS_KIND: IpAddressKind = IpAddressKind {
    class: IpAddressClass::Public,
    name: "a public address",
};

const CLOUD_METADATA_ADDRESS_KIND: IpAddressKind =
    forbidden_address_kind("an address of cloud metadata");

const RESERVED_ADDRESS_KIND: IpAddressKind = forbidden_address_kind("a reserved address");

const fn private_address_kind(name: &'static str) -> IpAddressKind {
    IpAddressKind {
        class: IpAddressClass::Private,
        name,
    }
}

const fn forbidden_address_kind(name: &'static str) -> IpAddressKind {
    IpAddressKind {
        class: IpAddressClass::Never,
        name,
    }
}

/// Networks as address, prefix length in bits, and kind. The first match applies; an address that
/// matches none is reserved.
const ADDRESS_KINDS_BY_NETWORK: &[(&str, u32, IpAddressKind)] = &[
    // Most clouds use 169.254.169.254; one uses 169.254.170.2 and 169.254.170.23 for containers and
    // pods.
    ("169.254.169.0", 24, CLOUD_METADATA_ADDRESS_KIND),
    ("169.254.170.0", 24, CLOUD_METADATA_ADDRESS_KIND),
    ("169.254.42.42", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("169.254.0.23", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("169.254.10.10", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("100.100.100.200", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("100.96.0.96", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("192.0.0.192", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("168.63.129.16", 32, CLOUD_METADATA_ADDRESS_KIND),
    (
        "0.0.0.0",
        8,
        forbidden_address_kind("an unspecified address"),
    ),
    (
        "224.0.0.0",
        4,
        forbidden_address_kind("a multicast address"),
    ),
    (
        "255.255.255.255",
        32,
        forbidden_address_kind("the broadcast address"),
    ),
    ("240.0.0.0", 4, forbidden_address_kind("a reserved address")),
    ("127.0.0.0", 8, private_address_kind("a loopback address")),
    ("10.0.0.0", 8, private_address_kind("a private address")),
    ("172.16.0.0", 12, private_address_kind("a private address")),
    ("192.168.0.0", 16, private_address_kind("a private address")),
    (
        "169.254.0.0",
        16,
        private_address_kind("a link-local address"),
    ),
    (
        "100.64.0.0",
        10,
        private_address_kind("a carrier's own address"),
    ),
    (
        "192.0.0.0",
        24,
        private_address_kind("an address of protocols"),
    ),
    (
        "192.0.2.0",
        24,
        private_address_kind("a documentation address"),
    ),
    (
        "198.51.100.0",
        24,
        private_address_kind("a documentation address"),
    ),
    (
        "203.0.113.0",
        24,
        private_address_kind("a documentation address"),
    ),
    (
        "198.18.0.0",
        15,
        private_address_kind("a benchmark address"),
    ),
    ("192.88.99.0", 24, private_address_kind("a relay's address")),
    ("0.0.0.0", 0, PUBLIC_ADDRESS_KIND),
    ("fd00:ec2::", 32, CLOUD_METADATA_ADDRESS_KIND),
    ("fd20:ce::254", 128, CLOUD_METADATA_ADDRESS_KIND),
    ("fd00:42::42", 128, CLOUD_METADATA_ADDRESS_KIND),
    ("::", 128, forbidden_address_kind("an unspecified address")),
    ("::1", 128, private_address_kind("a loopback address")),
    ("::", 96, private_address_kind("an obsolete address")),
    (
        "::ffff:0:0:0",
        96,
        private_address_kind("a translated address"),
    ),
    (
        "64:ff9b:1::",
        48,
        private_address_kind("a translated address"),
    ),
    ("fc00::", 7, private_address_kind("a private address")),
    ("fe80::", 10, private_address_kind("a link-local address")),
    ("fec0::", 10, private_address_kind("a site-local address")),
    ("ff00::", 8, forbidden_address_kind("a multicast address")),
    (
        "2001::",
        23,
        private_address_kind("an address of protocols"),
    ),
    (
        "2001:db8::",
        32,
        private_address_kind("a documentation address"),
    ),
    (
        "3fff::",
        20,
        private_address_kind("a documentation address"),
    ),
    ("2000::", 3, PUBLIC_ADDRESS_KIND),
];

/// The networks in binary form, with IPv4 addresses mapped to IPv6. A test checks that all entries
/// parse, because an entry that does not would match every address and make it reserved.
static PARSED_ADDRESS_KINDS_BY_NETWORK: LazyLock<Vec<(u128, u32, IpAddressKind)>> =
    LazyLock::new(|| {
        let read = |(address, prefix, kind): &(&str, u32, IpAddressKind)| match address.parse() {
            Ok(IpAddr::V4(address)) => (address.to_ipv6_mapped().to_bits(), prefix + 96, *kind),
            Ok(IpAddr::V6(address)) => (address.to_bits(), *prefix, *kind),
            Err(_) => (0, 0, RESERVED_ADDRESS_KIND),
        };
        ADDRESS_KINDS_BY_NETWORK.iter().map(read).collect()
    });

/// Looks up an address in the table. IPv4 addresses are passed in mapped form.
fn find_address_kind(address: Ipv6Addr) -> IpAddressKind {
    let bits = address.to_bits();
    let holds = |network: u128, prefix: u32| (bits ^ network).leading_zeros() >= prefix;
    let mut networks = PARSED_ADDRESS_KINDS_BY_NETWORK.iter();
    let found = networks.find(|(network, prefix, _)| holds(*network, *prefix));
    found.map_or(RESERVED_ADDRESS_KIND, |(.., kind)| *kind)
}

/// Returns the class of an IP address and the description of its network.
#[must_use]
pub fn classify_address(address: IpAddr) -> IpAddressKind {
    match address {
        IpAddr::V4(address) => classify_ipv4_address(address),
        IpAddr::V6(address) => classify_ipv6_address(address),
    }
}

fn classify_ipv4_address(address: Ipv4Addr) -> IpAddressKind {
    find_address_kind(address.to_ipv6_mapped())
}

fn classify_ipv6_address(address: Ipv6Addr) -> IpAddressKind {
    let low = |a: u16, b: u16| Ipv4Addr::from_bits(u32::from(a) << 16 | u32::from(b));
    let segments = address.segments();
    let inner = match segments {
        // IPv4-mapped, NAT64 and 6to4 addresses: packets are routed to the inner IPv4 address, so
        // only its kind counts.
        [0, 0, 0, 0, 0, 0xffff, g, h] | [0x64, 0xff9b, 0, 0, 0, 0, g, h] => {
            return classify_ipv4_address(low(g, h));
        }
        [0x2002, b, c, ..] => return classify_ipv4_address(low(b, c)),
        // Teredo stores the client's address with all bits inverted.
        [0x2001, 0, .., g, h] => Some(low(!g, !h)),
        // `::1` has the form of an IPv4-compatible address, but embeds none.
        [0, 0, 0, 0, 0, 0, 0, 1] => None,
        // IPv4-compatible, IPv4-translated, local NAT64 and ISATAP addresses end with the IPv4
        // address.
        [0, 0, 0, 0, 0 | 0xffff, 0, g, h] | [0x64, 0xff9b, 1, .., g, h] => Some(low(g, h)),
        [_, _, _, _, 0 | 0x100 | 0x200 | 0x300, 0x5efe, g, h] => Some(low(g, h)),
        // Some clouds embed the IPv4 metadata address in an IPv6 address of their own.
        [.., 0xa9fe, 0xa9fe] => Some(low(0xa9fe, 0xa9fe)),
        _ => None,
    };
    let own = find_address_kind(address);
    match inner.map(classify_ipv4_address) {
        Some(inner) if inner.class > own.class => inner,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that all addresses, separated by white space, have this class.
    fn check(class: IpAddressClass, addresses: &str) {
        for address in addresses.split_whitespace() {
            let kind = classify_address(address.parse().unwrap());
            assert_eq!(kind.class, class, "{address}: {}", kind.name);
        }
    }

    #[test]
    fn every_network_can_be_read() {
        for (network, ..) in ADDRESS_KINDS_BY_NETWORK {
            assert!(network.parse::<IpAddr>().is_ok(), "{network}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        check(
            IpAddressClass::Public,
            "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.0
             169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255
             192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
             2606:4700::1111 2a00:1450:4001:80b::200e ::ffff:8.8.8.8 64:ff9b::808:808
             2002:808:808::1",
        );
    }

    #[test]
    fn addresses_of_somebodys_own_network_are_private() {
        check(
            IpAddressClass::Private,
            "127.0.0.1 127.255.255.255 10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255
             192.168.0.0 192.168.255.255 169.254.0.1 100.64.0.0 100.127.255.255 192.0.0.1
             192.0.2.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 192.88.99.1
             ::1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::127.0.0.1 ::8.8.8.8 ::ffff:0:7f00:1
             64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 2002:7f00:1:: 2002:0a00:0001::1
             2001:0:1:2:3:4:f5ff:fffe 2001:2::1 2001:db8::1 3fff::1 fc00::1 fdff::1 fe80::1
             febf::1 fec0::1 fe80::5efe:10.0.0.1 2606:4700::5efe:10.0.0.1",
        );
    }

    #[test]
    fn metadata_multicast_and_reserved_addresses_are_nobodys() {
        check(
            IpAddressClass::Never,
            "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 192.0.0.192
             168.63.129.16 0.0.0.0 0.1.2.3 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
             :: ::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254
             64:ff9b::169.254.169.254 64:ff9b:1::169.254.169.254 2002:a9fe:a9fe::1
             2001:0:1:2:3:4:5601:5601 fe80::5efe:169.254.169.254 fe80::a9fe:a9fe fd00:ec2::254
             fd00:ec2::23 fd20:ce::254 ::ffff:0.0.0.0 ff02::1 100::1 4000::1 f000::1",
        );
    }
}
