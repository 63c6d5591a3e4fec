package uuid;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Locale;
import jetbrains.exodus.ArrayByteIterable;
import jetbrains.exodus.ByteIterable;
import jetbrains.exodus.bindings.StringBinding;
import jetbrains.exodus.env.Cursor;
import jetbrains.exodus.env.Environment;
import jetbrains.exodus.env.EnvironmentConfig;
import jetbrains.exodus.env.Environments;
import jetbrains.exodus.env.Store;
import jetbrains.exodus.env.StoreConfig;
import jetbrains.exodus.env.Transaction;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.OptimisticTransactionDB;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;

/**
 * The loop of the comparison of Xodus and RocksDB: one thread, transactions of 100 puts of two UUIDs each, then all of them read
 * forward and decoded into strings. {@code java uuid.Uuid rocksdbjni|xodus FOLDER PAIRS SECONDS}. The pairs are those of
 * {@code isomer bench uuid}.
 */
public final class Uuid {
    private static final int BATCH = 100;
    private static final long BUDGET_BYTES = 128L << 20;
    private static final int MEMTABLE_BYTES = 16 << 20;
    private static final int MEMTABLES = 2;

    private interface Subject extends AutoCloseable {
        void put(long first) throws Exception;

        long scan() throws Exception;

        boolean get(String key, String value) throws Exception;

        void compact() throws Exception;

        @Override
        void close() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String system = arguments[0];
        Path folder = Path.of(arguments[1]);
        long pairs = Long.parseLong(arguments[2]);
        double limit = Double.parseDouble(arguments[3]);
        Files.createDirectories(folder);
        long slice = pairs >= 2_000_000 ? 1_000_000 : pairs / 10;
        try (Subject subject = system.equals("xodus") ? new Xodus(folder) : new Rocks(folder)) {
            long start = System.nanoTime();
            long sliceStart = start;
            long worst = 0;
            long written = 0;
            double first = 0;
            double last = 0;
            int number = 0;
            while (written < pairs) {
                long before = System.nanoTime();
                subject.put(written);
                worst = Math.max(worst, System.nanoTime() - before);
                written += BATCH;
                if (written % slice == 0) {
                    long now = System.nanoTime();
                    last = (now - sliceStart) / 1e9;
                    first = number == 0 ? last : first;
                    number++;
                    sliceStart = now;
                    tell(system, "writes_per_s_of_slice_" + number, slice / last, "puts/s", slice);
                    if ((now - start) / 1e9 > limit) {
                        System.err.println("  " + system + ": given up after " + written + " pairs");
                        break;
                    }
                }
            }
            double time = (System.nanoTime() - start) / 1e9;
            tell(system, "writes_per_s", written / time, "puts/s", written);
            tell(system, "last_to_first_million", last / first, "ratio", slice);
            tell(system, "worst_commit_ms", worst / 1e6, "ms", written / BATCH);
            long begin = System.nanoTime();
            subject.compact();
            tell(system, "compact_s", (System.nanoTime() - begin) / 1e9, "s", 1);
            tell(system, "disk_bytes_per_raw_byte", size(folder) / (written * 72.0), "ratio", written);
            begin = System.nanoTime();
            long found = subject.scan();
            if (found != written) {
                throw new IllegalStateException(found + " pairs instead of " + written);
            }
            tell(system, "scan_per_s", found / ((System.nanoTime() - begin) / 1e9), "pairs/s", found);
            long reads = Math.min(1_000_000, Math.max(100, pairs / 10));
            begin = System.nanoTime();
            long state = 7;
            for (long read = 0; read < reads; read++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                String[] wanted = pair(Math.floorMod(state >>> 11, written));
                if (!subject.get(wanted[0], wanted[1])) {
                    throw new IllegalStateException("the value of " + wanted[0] + " is not what was written");
                }
            }
            tell(system, "reads_per_s_1", reads / ((System.nanoTime() - begin) / 1e9), "reads/s", reads);
            tell(system, "peak_rss_mib", peak(), "MiB", 1);
        }
    }

    private static void tell(String system, String name, double value, String unit, long n) {
        System.out.println(String.format(Locale.ROOT,
            "{\"system\":\"%s\",\"bench\":\"uuid\",\"case\":\"%s\",\"value\":%.3f,\"unit\":\"%s\",\"n\":%d}", system, name, value, unit, n));
    }

    private static double peak() throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(Path.of("/proc/self/status"))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024.0;
                }
            }
        }
        return Double.NaN;
    }

    private static long size(Path folder) throws IOException {
        long[] bytes = {0};
        Files.walkFileTree(folder, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes about) {
                bytes[0] += about.size();
                return FileVisitResult.CONTINUE;
            }
        });
        return bytes[0];
    }

    // ---- the pairs of crates/bench/src/uuid/pairs.rs

    private static long mix(long bits) {
        bits = (bits ^ (bits >>> 30)) * 0xBF58476D1CE4E5B9L;
        bits = (bits ^ (bits >>> 27)) * 0x94D049BB133111EBL;
        return bits ^ (bits >>> 31);
    }

    private static final long STEP = 0x9E3779B97F4A7C15L;

    private static String[] pair(long number) {
        long state = mix((0x1507L ^ 0xD6E8FEB86659FD93L) + STEP) ^ number * 0xA0761D6478BD642FL;
        String[] texts = new String[2];
        for (int at = 0; at < 2; at++) {
            long high = mix(state += STEP) & ~0xf000L | 0x4000L;
            long low = mix(state += STEP) & ~(3L << 62) | 1L << 63;
            texts[at] = new java.util.UUID(high, low).toString();
        }
        return texts;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    // ---- the systems

    private static final class Rocks implements Subject {
        private final OptimisticTransactionDB db;

        Rocks(Path folder) throws Exception {
            RocksDB.loadLibrary();
            BlockBasedTableConfig blocks = new BlockBasedTableConfig();
            blocks.setBlockSize(4096).setFilterPolicy(new BloomFilter(10, false)).setCacheIndexAndFilterBlocks(true);
            blocks.setBlockCache(new LRUCache(BUDGET_BYTES - (long) MEMTABLES * MEMTABLE_BYTES));
            Options options = new Options().setCreateIfMissing(true).setTableFormatConfig(blocks);
            options.setWriteBufferSize(MEMTABLE_BYTES).setMaxWriteBufferNumber(MEMTABLES).setMaxBytesForLevelBase(64 << 20);
            options.setCompressionType(CompressionType.LZ4_COMPRESSION).setMaxBackgroundJobs(2);
            db = OptimisticTransactionDB.open(options, folder.toString());
        }

        @Override
        public void put(long first) throws Exception {
            try (WriteOptions options = new WriteOptions(); org.rocksdb.Transaction transaction = db.beginTransaction(options)) {
                for (long number = first; number < first + BATCH; number++) {
                    String[] pair = pair(number);
                    transaction.put(bytes(pair[0]), bytes(pair[1]));
                }
                transaction.commit();
            }
        }

        @Override
        public long scan() throws Exception {
            long found = 0;
            try (RocksIterator at = db.newIterator()) {
                for (at.seekToFirst(); at.isValid(); at.next()) {
                    String key = new String(at.key(), StandardCharsets.UTF_8);
                    String value = new String(at.value(), StandardCharsets.UTF_8);
                    found += key.length() == 36 && value.length() == 36 ? 1 : 0;
                }
                at.status();
            }
            return found;
        }

        @Override
        public boolean get(String key, String value) throws Exception {
            byte[] found = db.get(bytes(key));
            return found != null && new String(found, StandardCharsets.UTF_8).equals(value);
        }

        @Override
        public void compact() throws Exception {
            try (FlushOptions options = new FlushOptions().setWaitForFlush(true)) {
                db.flush(options);
            }
            try (CompactRangeOptions options = new CompactRangeOptions()) {
                options.setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce);
                db.compactRange(null, null, null, options);
            }
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private static final class Xodus implements Subject {
        private final Environment environment;
        private final Store store;

        Xodus(Path folder) {
            EnvironmentConfig config = new EnvironmentConfig();
            config.setMemoryUsage(BUDGET_BYTES);
            environment = Environments.newInstance(folder.toFile(), config);
            store = environment.computeInTransaction(
                transaction -> environment.openStore("uuid", StoreConfig.WITHOUT_DUPLICATES, transaction));
        }

        @Override
        public void put(long first) {
            environment.executeInTransaction(transaction -> {
                for (long number = first; number < first + BATCH; number++) {
                    String[] pair = pair(number);
                    store.put(transaction, StringBinding.stringToEntry(pair[0]), StringBinding.stringToEntry(pair[1]));
                }
            });
        }

        @Override
        public long scan() {
            return environment.computeInReadonlyTransaction(transaction -> {
                long found = 0;
                try (Cursor at = store.openCursor(transaction)) {
                    while (at.getNext()) {
                        String key = StringBinding.entryToString(at.getKey());
                        String value = StringBinding.entryToString(at.getValue());
                        found += key.length() == 36 && value.length() == 36 ? 1 : 0;
                    }
                }
                return found;
            });
        }

        @Override
        public boolean get(String key, String value) {
            ByteIterable wanted = new ArrayByteIterable(StringBinding.stringToEntry(key));
            return environment.computeInReadonlyTransaction((Transaction transaction) -> {
                ByteIterable found = store.get(transaction, wanted);
                return found != null && StringBinding.entryToString(found).equals(value);
            });
        }

        @Override
        public void compact() {
            environment.gc();
        }

        @Override
        public void close() {
            environment.close();
        }
    }
}
