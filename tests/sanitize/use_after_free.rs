//! Reads a freed allocation. The suite `sanitize` builds this program as it builds the tests of the memtable, and
//! expects that AddressSanitizer ends it: otherwise, tests that pass would prove nothing.

fn main() {
    let number = Box::into_raw(Box::new(std::process::id()));
    // SAFETY: `number` comes from a box and is freed once. The read after it is unsound, on purpose.
    let read = unsafe {
        drop(Box::from_raw(number));
        std::ptr::read_volatile(number)
    };
    println!("{read} was read after it was freed");
}
