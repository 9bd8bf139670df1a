//! Local memory.

use super::*;

/// Local memory: word `w` of lane `l` stands at `(w * 32 + l) * 4`, so that a warp that indexes alike
/// reads side by side, as on the device.
pub(crate) struct ReachLocal;

/// Where byte `address` of a lane's local memory stands.
#[inline(always)]
pub(super) fn local_place(address: u64, lane: usize) -> usize {
    (address as usize / 4 * 32 + lane) * 4 + address as usize % 4
}

impl Reach for ReachLocal {
    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let limit = u64::from(x.code.local_bytes);
        let bytes = 4 * N as u64;
        if C::SIZE != 4 || first >= limit || bytes > limit - first {
            return false;
        }
        let local = x.warp().local.pointer();
        for k in 0..N {
            // SAFETY: the word lies in each thread's local memory, and the lanes' words side by side.
            unsafe {
                let host = local.add(local_place(first + 4 * k as u64, 0));
                let target = register::<N>(x, op.dst, k);
                load_run::<C, 1>(x, target, host);
            }
        }
        x.counts.local.requests += 1;
        x.counts.local.bytes += 32 * bytes;
        x.counts.local.sectors += 4 * N as u64;
        true
    }

    #[inline(always)]
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let size = C::SIZE * N as u64;
        let limit = u64::from(x.code.local_bytes);
        x.check_window(pc, "local", limit, at, mask, size)?;
        let local = x.warp().local.pointer();
        for k in 0..N {
            let mut values = [C::Lane::ZERO; 32];
            for lane in lanes(mask) {
                let address = at[lane] + k as u64 * C::SIZE;
                // SAFETY: the access lies in the thread's local memory.
                values[lane] = unsafe {
                    if C::SIZE <= 4 {
                        C::load(local.add(local_place(address, lane)))
                    } else {
                        let lo = W32::load(local.add(local_place(address, lane)));
                        let hi = W32::load(local.add(local_place(address + 4, lane)));
                        C::Lane::from_u64(u64::from(lo) | u64::from(hi) << 32)
                    }
                };
            }
            // SAFETY: lowering chose registers of this width.
            unsafe {
                let target = register::<N>(x, op.dst, k);
                x.write(target, mask, values);
            }
        }
        count_local(x, at, mask, size);
        Ok(())
    }

    #[inline(always)]
    unsafe fn store<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let size = C::SIZE * N as u64;
        let limit = u64::from(x.code.local_bytes);
        x.check_window(pc, "local", limit, at, mask, size)?;
        let local = x.warp().local.pointer();
        for k in 0..N {
            // SAFETY: lowering chose registers of this width.
            let values = unsafe { x.read::<C::Lane>(register::<N>(x, op.dst, k)) };
            for lane in lanes(mask) {
                let address = at[lane] + k as u64 * C::SIZE;
                // SAFETY: the access lies in the thread's local memory.
                unsafe {
                    if C::SIZE <= 4 {
                        C::store(local.add(local_place(address, lane)), values[lane]);
                    } else {
                        let value = values[lane].to_u64();
                        W32::store(local.add(local_place(address, lane)), value as u32);
                        let high = local.add(local_place(address + 4, lane));
                        W32::store(high, (value >> 32) as u32);
                    }
                }
            }
        }
        count_local(x, at, mask, size);
        Ok(())
    }
}

/// Counts an access of local memory, by the sectors that its words stand in on the device.
pub(super) fn count_local(x: &mut Exec<'_>, at: &[u64; 32], mask: u32, size: u64) {
    let mut total = 0;
    for word in 0..size.div_ceil(4) {
        let mut places = [0; 32];
        for lane in lanes(mask) {
            places[lane] = local_place(at[lane] + word * 4, lane) as u64;
        }
        total += sectors(&places, mask).count as u64;
    }
    x.counts.local.requests += 1;
    x.counts.local.bytes += asked(mask, size);
    x.counts.local.sectors += total;
}
