package io.kaspr.delta;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * Spark's files of a stream's checkpoint, but in a bucket one is a PUT, and a conditional one where it may not replace
 * another.
 *
 * <p>Spark's own writes another file and renames it, since readers of a disk see a file that is not whole. A rename in S3
 * is a copy and a deletion, with about ten questions around them. A PUT is there as a whole or not at all.
 */
public class ConditionalCheckpoint extends FileContextBasedCheckpointFileManager {
    private final Configuration conf;

    public ConditionalCheckpoint(Path path, Configuration conf) {
        super(path, conf);
        this.conf = conf;
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        if (overwrite || !isInBucket(path)) {
            return super.createAtomic(path, overwrite);
        }
        return new Created(path, conf, new ByteArrayOutputStream());
    }

    /** Asks for the file of a batch alone, by a HEAD: a path may else be a folder, for which S3 has to list. */
    @Override
    public boolean exists(Path path) {
        try {
            if (isInBucket(path) && path.getName().chars().allMatch(Character::isDigit)) {
                // Null unless fs.s3a.etag.checksum.enabled is true.
                if (path.getFileSystem(conf).getFileChecksum(path) != null) {
                    return true;
                }
            }
        } catch (FileNotFoundException missing) {
            return false;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return super.exists(path);
    }

    private static boolean isInBucket(Path path) {
        return "s3a".equals(path.toUri().getScheme());
    }

    /** Keeps what is written until it is closed. */
    private static final class Created extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final Path path;
        private final Configuration conf;
        private final ByteArrayOutputStream content;
        private boolean ended;

        Created(Path path, Configuration conf, ByteArrayOutputStream content) {
            super(content);
            this.path = path;
            this.conf = conf;
            this.content = content;
        }

        @Override
        public void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            flush();
            FileSystem files = path.getFileSystem(conf);
            ConditionalFiles.create(files, path, content.toByteArray());
        }

        @Override
        public void cancel() {
            ended = true;
        }
    }
}
