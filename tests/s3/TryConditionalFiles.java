import io.delta.storage.CloseableIterator;
import io.kaspr.delta.ConditionalCheckpoint;
import io.kaspr.delta.ConditionalLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** Writes and reads commits and a checkpoint in a folder of a bucket, and prints what comes of it. */
public class TryConditionalFiles {
    private static final Configuration CONF = new Configuration();

    public static void main(String[] arguments) throws Exception {
        CONF.set("fs.s3a.endpoint", System.getenv("AWS_ENDPOINT_URL"));
        CONF.set("fs.s3a.path.style.access", "true");
        CONF.set("fs.s3a.connection.ssl.enabled", "false");
        CONF.set("fs.s3a.endpoint.region", "us-east-1");
        CONF.set("fs.s3a.etag.checksum.enabled", "true");
        Path folder = new Path(arguments[0]);
        checkpoint(new Path(folder, "offsets"));
        log(new Path(folder, "_delta_log"));
    }

    private static void checkpoint(Path offsets) throws IOException {
        CheckpointFileManager files = new ConditionalCheckpoint(offsets, CONF);
        Path first = new Path(offsets, "0");
        print("there", files.exists(first));
        print("created", create(files, first, "one", false));
        print("there, and the folder", files.exists(first) + " " + files.exists(offsets));
        print("created again by the same stream", create(files, first, "one", false));
        print("created over another", create(files, first, "two", false));
        print("cancelled", create(files, new Path(offsets, "1"), "three", true) + " " + files.exists(new Path(offsets, "1")));
        print("files", files.list(offsets).length);
        print("content", new String(files.open(first).readAllBytes()));
    }

    private static boolean create(CheckpointFileManager files, Path path, String text, boolean cancelled)
            throws IOException {
        CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(path, false);
        out.write(text.getBytes());
        if (cancelled) {
            out.cancel();
            out.close();
            return false;
        }
        try {
            out.close();
            return true;
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException refused) {
            out.cancel();
            return false;
        }
    }

    private static void log(Path folder) throws IOException {
        ConditionalLogStore log = new ConditionalLogStore(CONF);
        Path commit = new Path(folder, "00000000000000000000.json");
        log.write(commit, List.of("one").iterator(), false, CONF);
        try {
            log.write(commit, List.of("two").iterator(), false, CONF);
            print("committed again", true);
        } catch (FileAlreadyExistsException refused) {
            print("committed again", false);
        }
        log.listFrom(commit, CONF).forEachRemaining(one -> print("listed", one.getPath().getName()));
        print("read", read(log, commit));
        FileSystem files = commit.getFileSystem(CONF);
        try (OutputStream out = files.create(commit, true)) {
            out.write("of another table\nthat took its place\n".getBytes());
        }
        print("read of another table", read(log, commit));
        files.delete(commit, false);
        try {
            print("read of none", read(log, commit));
        } catch (FileNotFoundException missing) {
            print("read of none", "missing");
        }
    }

    private static List<String> read(ConditionalLogStore log, Path commit) throws IOException {
        List<String> lines = new ArrayList<>();
        try (CloseableIterator<String> found = log.read(commit, CONF)) {
            found.forEachRemaining(lines::add);
        }
        return lines;
    }

    private static void print(String about, Object value) {
        System.out.println("> " + about + ": " + value); // what else is printed is logged
    }
}
