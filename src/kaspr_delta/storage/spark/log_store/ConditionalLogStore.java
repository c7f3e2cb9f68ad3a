package io.kaspr.delta;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log store for S3, but a commit is a conditional PUT (If-None-Match: *): of writers in several processes one wins.
 *
 * <p>Delta's own asks whether the file exists and then writes it, under a lock of one JVM. The option of the builder is a
 * "must": a file system that does not know it refuses the commit.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration conf) {
        super(conf);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite) {
            super.write(path, actions, true, conf);
            return;
        }
        StringBuilder text = new StringBuilder();
        while (actions.hasNext()) {
            text.append(actions.next()).append('\n');
        }
        byte[] commit = text.toString().getBytes(StandardCharsets.UTF_8);
        FileSystem files = path.getFileSystem(conf);
        try {
            create(files, path, commit);
        } catch (IOException error) {
            // An answer that was lost makes the client send the PUT again, and S3 refuse it: the commit is this one. No
            // two are equal, for each has the id of its transaction.
            if (!isRefused(error)) {
                throw error;
            }
            if (!Arrays.equals(read(files, path), commit)) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static void create(FileSystem files, Path path, byte[] commit) throws IOException {
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).overwrite(true);
        builder.must(CONDITIONAL, true);
        try (OutputStream out = (OutputStream) builder.build()) {
            out.write(commit);
        }
    }

    private static byte[] read(FileSystem files, Path path) throws IOException {
        try (InputStream in = files.open(path)) {
            return in.readAllBytes();
        }
    }

    private static boolean isRefused(Throwable error) {
        for (Throwable one = error; one != null; one = one.getCause()) {
            if (String.valueOf(one.getMessage()).contains("Status Code: 412")) {
                return true;
            }
        }
        return false;
    }
}
