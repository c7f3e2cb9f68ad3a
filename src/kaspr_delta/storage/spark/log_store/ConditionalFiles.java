package io.kaspr.delta;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Writes a file in a bucket unless it is there, by one conditional PUT (If-None-Match: *): of several writers one wins.
 *
 * <p>The option for that is a "must": a file system that does not know it refuses the file. With the other one it does
 * not look for folders of the same name before the PUT.
 */
final class ConditionalFiles {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    private static final String WITHOUT_LOOKS = "fs.s3a.create.performance";

    private ConditionalFiles() {}

    /** Writes a file. Throws FileAlreadyExistsException where another one is there. */
    static void create(FileSystem files, Path path, byte[] content) throws IOException {
        try {
            put(files, path, content);
        } catch (IOException error) {
            // An answer that was lost makes the client send the PUT again, and S3 refuse it: the file is this one.
            if (!isRefused(error)) {
                throw error;
            }
            if (!Arrays.equals(read(files, path), content)) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static void put(FileSystem files, Path path, byte[] content) throws IOException {
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).overwrite(true);
        builder.must(CONDITIONAL, true);
        builder.opt(WITHOUT_LOOKS, true);
        try (OutputStream out = (OutputStream) builder.build()) {
            out.write(content);
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
