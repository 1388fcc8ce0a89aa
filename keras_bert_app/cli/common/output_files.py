"""What a command leaves in the directory that it was given."""

import os


def write_files(output_dir, contents):
    """Writes files, each whole or not at all, a dict of name -> bytes or an iterable of bytes, and says so."""
    import tensorflow as tf

    for name, content in contents.items():
        path = os.path.join(output_dir, name)
        with tf.io.gfile.GFile(f"{path}.tmp", "wb") as file:
            for part in [content] if isinstance(content, bytes) else content:
                file.write(part)
        tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)
    print(f"\n{output_dir}: {', '.join(contents)}")
