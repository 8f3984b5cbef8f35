//! Control over a desk that is a script.
