"""What a command leaves in the directory that it was given."""

import os


def write_files(output_dir, contents):
    """Writes files, a dict of name -> bytes or an iterable of bytes, and says so."""
    import tensorflow as tf
    for name, content in contents.items():
        with tf.io.gfile.GFile(os.path.join(output_dir, name), "wb") as file:
            for part in [content] if isinstance(content, bytes) else content:
                file.write(part)
    print(f"\n{output_dir}: {', '.join(contents)}")
