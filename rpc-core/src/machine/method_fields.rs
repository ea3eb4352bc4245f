use crate::wire::header::RequestHeader;

/// The header field `remote_method` of the methods called last, encoded once.
#[derive(Debug, Default)]
pub(crate) struct MethodFields {
    known: [Option<Known>; 4],
    next: usize,
}

#[derive(Debug)]
struct Known {
    service: &'static str,
    method: &'static str,
    field: Vec<u8>,
}

impl MethodFields {
    /// Tag, length, and the two names.
    pub(crate) fn of(&mut self, service: &'static str, method: &'static str) -> &[u8] {
        // The same name may lie in two places; that only costs a place here.
        let same = |known: &Known| std::ptr::eq(known.service, service) && std::ptr::eq(known.method, method);
        let index = match self.known.iter().flatten().position(same) {
            Some(index) => index,
            None => {
                let index = self.next.checked_rem(self.known.len()).unwrap_or(0);
                self.next = index.wrapping_add(1);
                let mut field = Vec::new();
                RequestHeader::encode_method(service.as_bytes(), method.as_bytes(), &mut field);
                if let Some(place) = self.known.get_mut(index) {
                    *place = Some(Known { service, method, field });
                }
                index
            }
        };
        self.known.get(index).and_then(Option::as_ref).map_or(&[], |known| &known.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_own_field_however_many_there_are() {
        let names = ["A", "B", "C", "D", "E", "F"];
        let mut fields = MethodFields::default();
        for round in [&names[..], &names[..2], &names[1..5], &names[..]] {
            for service in round {
                for method in round {
                    let mut expected = Vec::new();
                    RequestHeader::encode_method(service.as_bytes(), method.as_bytes(), &mut expected);
                    assert_eq!(fields.of(service, method), expected);
                }
            }
        }
    }
}
