"""What a command leaves in the directory that it was given."""

import os


def write_files(output_dir, contents):
    """Writes files, a dict of name -> bytes, and says so."""
    import tensorflow as tf
    for name, content in contents.items():
        with tf.io.gfile.GFile(os.path.join(output_dir, name), "wb") as file:
            file.write(content)
    print(f"\n{output_dir}: {', '.join(contents)}")
