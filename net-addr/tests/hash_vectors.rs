//! The hashes agree with the reference: a real server places connections by them.

use net_addr::SockAddr;
use net_addr::hash::{Form, city, jenkins};

fn addr(text: &str) -> SockAddr {
    SockAddr::parse(text, 0).unwrap()
}

#[test]
fn ipv4_hashes_agree_with_the_reference() {
    for &(text, short, accepted, ip_mix, jenkins_hash) in IPV4 {
        let addr = addr(text);
        assert_eq!(city::hash(&addr, Form::Short), short, "{text}, 8 bytes");
        assert_eq!(city::hash(&addr, Form::Accepted), accepted, "{text}, 16 bytes");
        let std::net::IpAddr::V4(ip) = addr.ip().unwrap() else { panic!("{text} is IPv4") };
        assert_eq!(jenkins::mix(u32::from_le_bytes(ip.octets()), 0), ip_mix, "{text}, IP mixed");
        assert_eq!(jenkins::hash(&addr), jenkins_hash, "{text}, Jenkins");
    }
}

#[test]
fn ipv6_and_unix_hashes_agree_with_the_reference() {
    for &(text, expected) in OTHERS {
        assert_eq!(city::hash(&addr(text), Form::Short), expected, "{text}");
        assert_eq!(city::hash(&addr(text), Form::Accepted), expected, "{text} has one form only");
    }
}

const IPV4: &[(&str, u64, u64, u32, u32)] = &[
    ("127.0.0.1:7050", 0x05bd_4707_da6e_0474, 0xccaa_3567_7c5d_456c, 0x10be_32f8, 0xe4ed_fae1),
    ("127.0.0.1:7051", 0x2caf_11a5_9633_37c3, 0x0451_089b_48ed_0170, 0x10be_32f8, 0xcb20_fc87),
    ("127.0.0.1:40000", 0x7ab2_c530_aab5_1aaa, 0xbe8d_6c06_7649_f175, 0x10be_32f8, 0x5091_13eb),
    ("127.0.0.1:40001", 0xcc13_d96a_9014_209d, 0x546c_6afe_cd3c_fa72, 0x10be_32f8, 0x1724_0243),
    ("0.0.0.0:0", 0xeea3_5fd7_69e0_592d, 0xea2f_a743_e585_e95c, 0x0a94_d6d4, 0x7543_000e),
    ("0.0.0.0:7051", 0xd5f5_6edc_e4c3_b40b, 0x4b15_7c94_19d6_5db4, 0x0a94_d6d4, 0x677f_129b),
    ("10.0.0.1:7050", 0x13b2_009b_874f_415c, 0x2c8a_db10_a989_e3f0, 0x7753_84b7, 0x85d3_d2f0),
    ("10.0.0.2:7050", 0xd169_614c_18d3_5efa, 0x43ec_38ab_cf81_46d5, 0x34ce_d0e7, 0xde48_a9c9),
    ("192.168.1.10:7051", 0xe6af_33fb_6375_e312, 0x5156_6762_0cfb_7c9c, 0x71b0_d936, 0x64f0_ad27),
    ("255.255.255.255:65535", 0x25f0_e178_cb10_2bb4, 0x4517_dfeb_7794_ffc1, 0x278b_e412, 0x02f6_e284),
    ("8.8.8.8:53", 0xefda_a9ed_13ad_ec7c, 0xe5cb_6139_3ce6_be1d, 0xcad7_01c4, 0xdcef_07d8),
    ("172.16.254.3:33000", 0x4326_a7aa_cd0f_75dd, 0x1c9d_9fec_fe1e_3d15, 0x0c9f_0e9b, 0xb806_ed1c),
    ("127.0.1.1:7150", 0x4471_9b60_0730_0172, 0x7a9f_639f_655f_9f23, 0xeadd_e380, 0x93ea_4bcd),
];

const OTHERS: &[(&str, u64)] = &[
    ("[::1]:7050", 0x1935_d564_ea61_eb94),
    ("[::1]:7051", 0xfc74_491b_e7cc_b92f),
    ("[::]:0", 0x257d_78c8_a97c_a4f9),
    ("[2001:db8::1]:7050", 0x97b5_102a_e524_ff0d),
    ("[fe80::1]:65535", 0xfaaf_5f9d_2e79_108c),
    ("unix:<unnamed>", 0x8bc4_b4a6_2586_998a),
    ("@kudu-00000000000000000000000000000000", 0x9beb_37ea_bd79_0f8c),
    ("@kudu-0123456789abcdef0123456789abcdef", 0xcecc_bc2b_5076_96aa),
    ("@a", 0x83af_7d4d_8741_c1a9),
    ("/tmp/kudu.sock", 0xece3_7df5_1531_4a8a),
];
