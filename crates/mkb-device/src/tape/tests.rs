use super::*;
use proptest::prelude::*;

fn tensor() -> impl Strategy<Value = Tensor> {
    let dimensions = prop::collection::vec((any::<u64>(), any::<u64>()), 0..5);
    (
        (0..DTYPES.len()).prop_map(|i| Dtype(DTYPES[i].0)),
        dimensions,
        any::<(u64, u64, bool, bool, bool, bool, Option<u64>)>(),
    )
        .prop_map(|(dtype, dimensions, rest)| {
            let (sizes, strides) = dimensions.into_iter().unzip();
            Tensor {
                dtype,
                sizes,
                strides,
                allocation: rest.0,
                offset: rest.1,
                written: rest.2,
                conjugate: rest.3,
                negative: rest.4,
                wrapped_number: rest.5,
                born: rest.6,
            }
        })
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::None),
        Just(Value::Undefined),
        Just(Value::Generator),
        tensor().prop_map(Value::Tensor),
        any::<i64>().prop_map(Value::Int),
        // NaN is not equal to itself; its bits are covered by the other entries' bytes.
        (-1e300..1e300).prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::Same),
        Just(Value::Text("räksmörgås")),
        Just(Value::Device("cuda:0")),
        Just(Value::Other("a.B")),
        Just(Value::Complex(1.5, -0.0)),
        Just(Value::HostTensor(HostTensor {
            dtype: Dtype(2),
            sizes: vec![2, 1],
            wrapped_number: false,
            data: b"abcd",
        })),
        Just(Value::HostResult {
            dtype: Dtype(6),
            sizes: vec![3]
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Tuple),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Dict),
        ]
    })
}

fn entry() -> impl Strategy<Value = Entry<'static>> {
    let values = || prop::collection::vec(value(), 0..4);
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(allocation, bytes)| Entry::Alloc { allocation, bytes }),
        any::<u64>().prop_map(|allocation| Entry::Free { allocation }),
        (any::<Option<(u64, u64)>>(), values(), values()).prop_map(
            |(random, arguments, results)| Entry::Op(Op {
                name: "aten::add.Tensor",
                random,
                arguments,
                results
            })
        ),
        value().prop_map(Entry::Read),
        Just(Entry::Sync),
        any::<(u64, u8)>().prop_map(|(module, format)| Entry::Module {
            module,
            format,
            source: b"text"
        }),
        any::<(u64, [u32; 3], [u32; 3], [u32; 3], u32, u64, u64)>().prop_map(|x| {
            Entry::Launch(Launch {
                module: x.0,
                kernel: "k",
                dsl: "tirx",
                grid: x.1,
                block: x.2,
                cluster: x.3,
                dynamic_shared_bytes: x.4,
                arguments: vec![Argument {
                    bytes: &[0; 12],
                    pointers: vec![Pointer {
                        position: 4,
                        allocation: x.5,
                        offset: x.6,
                    }],
                }],
            })
        }),
        value().prop_map(Entry::Begin),
        value().prop_map(Entry::End),
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read_again(entries in prop::collection::vec(entry(), 0..6)) {
        let bytes = write(&entries);
        prop_assert_eq!(parse(&bytes).unwrap(), entries);
    }

    #[test]
    fn any_bytes_give_entries_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn a_changed_or_cut_tape_gives_entries_or_an_error(
        entries in prop::collection::vec(entry(), 1..4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = write(&entries);
        let place = at.index(bytes.len());
        bytes[place] = byte;
        let _ = parse(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = parse(&bytes);
    }

    #[test]
    fn measures_of_any_tensor_do_not_overflow(tensor in tensor()) {
        let extent = tensor.extent();
        prop_assert!(extent.start <= extent.end);
        prop_assert!(tensor.elements() != 0 || tensor.distinct_bytes() == 0);
        let _ = tensor.is_contiguous();
    }
}

fn strided(sizes: &[u64], strides: &[u64], offset: u64) -> Tensor {
    Tensor {
        dtype: Dtype::from_name("float32").unwrap(),
        sizes: sizes.to_vec(),
        strides: strides.to_vec(),
        allocation: 1,
        offset,
        written: false,
        conjugate: false,
        negative: false,
        wrapped_number: false,
        born: None,
    }
}

#[test]
fn a_tensor_knows_its_extent_and_its_distinct_bytes() {
    let column = strided(&[3, 1], &[4, 1], 8);
    assert_eq!(column.extent(), 8..8 + 4 * 9);
    assert_eq!(column.distinct_bytes(), 12);
    assert!(!column.is_contiguous());
    let expanded = strided(&[5, 4], &[0, 1], 0);
    assert_eq!((expanded.elements(), expanded.distinct_bytes()), (20, 16));
    assert!(strided(&[2, 1, 4], &[4, 77, 1], 0).is_contiguous());
    assert_eq!(strided(&[0, 4], &[4, 1], 12).extent(), 12..12);
}

#[test]
fn python_numbers_are_no_host_data() {
    let host = |wrapped_number| {
        Value::HostTensor(HostTensor {
            dtype: Dtype::from_name("float64").unwrap(),
            sizes: vec![],
            wrapped_number,
            data: &[0; 8],
        })
    };
    let op = Op {
        name: "aten::mul.Tensor",
        random: None,
        arguments: vec![Value::List(vec![host(false)]), host(true)],
        results: vec![],
    };
    assert_eq!(op.host_bytes(), 8);
}

#[test]
fn nesting_without_end_is_refused() {
    let mut body = [9u8, 1].repeat(100);
    body.push(0);
    let mut bytes = vec![9];
    bytes.extend([body.len() as u8 | 0x80, (body.len() >> 7) as u8]);
    bytes.extend(body);
    assert_eq!(
        parse(&bytes).unwrap_err().what,
        "values are nested too deep"
    );
}

#[test]
fn an_error_names_the_entry() {
    let mut bytes = write(&[Entry::Sync, Entry::Free { allocation: 300 }]);
    let second = 2;
    bytes.push(5);
    assert_eq!(parse(&bytes).unwrap_err().entry, bytes.len() - 1);
    bytes[second] = 77;
    assert_eq!(
        parse(&bytes).unwrap_err().to_string(),
        "tape: entry at byte 2: it is of no known kind"
    );
}
