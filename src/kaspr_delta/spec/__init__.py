"""What people write: the manifests of `kaspr.io/v1alpha1`, loaded and checked, every mistake with its place."""
