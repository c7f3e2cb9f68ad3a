package io.kaspr.delta;

import io.delta.storage.CloseableIterator;
import io.delta.storage.LineCloseableIterator;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log store for S3, but a commit is a conditional PUT (If-None-Match: *): of writers in several processes one wins.
 *
 * <p>Delta's own asks whether the file exists and then writes it, under a lock of one JVM.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
    private static final int LONGEST = 4 << 20;
    private static final int MOST_LISTED = 2_000;
    private static final Map<Path, FileStatus> LISTED = Collections.synchronizedMap(new Listed());

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
        // An answer that was lost: no two commits are equal, for each has the id of its transaction.
        try {
            ConditionalFiles.create(path.getFileSystem(conf), path, commit);
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException error) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    @Override
    public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
        List<FileStatus> found = new ArrayList<>();
        super.listFrom(path, conf).forEachRemaining(found::add);
        found.forEach(one -> LISTED.put(one.getPath(), one));
        return found.iterator();
    }

    /** Reads a file that was listed without asking for its length again. Another file of its name is refused, and asked for. */
    @Override
    public CloseableIterator<String> read(Path path, Configuration conf) throws IOException {
        FileSystem files = path.getFileSystem(conf);
        FileStatus listed = LISTED.get(files.makeQualified(path));
        if (listed == null || listed.getLen() > LONGEST) {
            return super.read(path, conf);
        }
        try (FSDataInputStream in = files.openFile(path).withFileStatus(listed).build().get()) {
            byte[] content = new byte[(int) listed.getLen()];
            in.readFully(0, content);
            return new LineCloseableIterator(new StringReader(new String(content, StandardCharsets.UTF_8)));
        } catch (IOException | ExecutionException changed) {
            return super.read(path, conf);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(path.toString());
        }
    }

    /** The files that were listed last. */
    private static final class Listed extends LinkedHashMap<Path, FileStatus> {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Path, FileStatus> eldest) {
            return size() > MOST_LISTED;
        }
    }
}
